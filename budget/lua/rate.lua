-- with rates.lua
-- Requests, tokens and calls in flight of a key and its team as one step, or what became of calls that passed one.
--   "step" {a step: rates.lua}
--   -> OK|NO now {used empty_us used empty_us}... OK: {requests tokens} leased {slots}... NO: level kind wait_us, -1 never
--   "end" n {owner requests tokens at_us, given back of what was counted then, tokens more} n {owner mine keep}
--   -> OK   EPOCH   STALE
local no = begin()
if no then return no end
if take() == 'step' then
  local step = step_read()
  return step_look(step) and step_take(step) or step_refuse(step)
end

local function give_back(owner, field, count, when, more)
  if count <= 0 and more <= 0 then return end
  local cells = window_get(owner, field)
  window_take_back(cells, count, when)
  window_add(cells, more, 0)
  window_put(owner, field, cells)
end

for _ = 1, tonumber(take()) do
  local owner, requests, tokens, when, more = take(), tonumber(take()), tonumber(take()), tonumber(take()), tonumber(take())
  give_back(owner, 'q', requests, when, 0)
  give_back(owner, 't', tokens, when, more)
end
for _ = 1, tonumber(take()) do
  local owner, mine, keep = take(), tonumber(take()), tonumber(take())
  mine_put(owner, math.max(mine, math.min((in_flight(owner, 0)), keep)))
end
return {'OK'}
