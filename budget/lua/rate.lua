-- Requests, tokens and calls in flight of a key and its team as one step, or what became of calls that passed one.
-- r:OWNER  q, t: a minute of requests and of tokens, as cells {first last count}...; f:WHO calls in flight, "boot:number"
--   "step" lives tokens n {owner requests tokens in_flight mine}
--   -> OK|NO now {used empty_us used empty_us}... [NO: level kind wait_us, -1 never]   EPOCH   STALE
--   "end" lives n {owner counted used at_us} n {owner mine}
--   -> OK
local no = begin()
if no then return no end
local verb, lives = take(), tonumber(take())
local MINUTE, CELL, SLOT_RETRY, KEPT_S = 60000000, 1000000, 1000000, 3600

local function owner_key(owner)
  return base .. 'r:' .. owner
end

local function window_get(owner, field)
  local packed = call('HGET', owner_key(owner), field)
  local cells, kept, used = packed and cmsgpack.unpack(packed) or {}, {}, 0
  for i = 1, #cells, 3 do
    if now - cells[i + 1] < MINUTE then
      kept[#kept + 1], kept[#kept + 2], kept[#kept + 3] = cells[i], cells[i + 1], cells[i + 2]
      used = used + cells[i + 2]
    end
  end
  return kept, used
end

local function window_put(owner, field, cells)
  call('HSET', owner_key(owner), field, cmsgpack.pack(cells))
  call('EXPIRE', owner_key(owner), KEPT_S)
end

local function window_add(cells, count)
  local n = #cells
  if count <= 0 then return end
  local when = n > 0 and math.max(now, cells[n - 1]) or now
  if n == 0 or when - cells[n - 2] >= CELL then
    cells[n + 1], cells[n + 2], cells[n + 3] = when, when, count
  else
    cells[n - 1], cells[n] = when, cells[n] + count
  end
end

local function window_wait(cells, used, limit, count)
  if count > limit then return -1 end
  local wait = 0
  for i = 1, #cells, 3 do
    if used <= limit - count then break end
    used = used - cells[i + 2]
    wait = cells[i + 1] + MINUTE - now
  end
  return wait
end

local function window_empty(cells)
  return #cells > 0 and cells[#cells - 1] + MINUTE - now or 0
end

local function mine_put(owner, mine)
  call('HSET', owner_key(owner), 'f:' .. who, boot .. ':' .. mine)
  call('EXPIRE', owner_key(owner), KEPT_S)
end

-- Calls of other processes that live.
local function others_in_flight(owner)
  local all, n = call('HGETALL', owner_key(owner)), 0
  for i = 1, #all, 2 do
    local of = sub(all[i], 1, 2) == 'f:' and sub(all[i], 3)
    if of and of ~= who then
      local cut = string.find(all[i + 1], ':', 1, true)
      local alive = now - tonumber(call('HGET', base .. 'seen', of) or '0') < lives
      if alive and call('HGET', base .. 'boot', of) == sub(all[i + 1], 1, cut - 1) then
        n = n + tonumber(sub(all[i + 1], cut + 1))
      end
    end
  end
  return n
end

if verb == 'end' then
  for _ = 1, tonumber(take()) do
    local owner, counted, used, when = take(), tonumber(take()), tonumber(take()), tonumber(take())
    local cells = window_get(owner, 't')
    if used >= counted then
      window_add(cells, used - counted)
    else
      for i = #cells - 2, 1, -3 do
        if when >= cells[i] and when <= cells[i + 1] then
          cells[i + 2] = math.max(0, cells[i + 2] - (counted - used))
          break
        end
      end
    end
    window_put(owner, 't', cells)
  end
  for _ = 1, tonumber(take()) do
    mine_put(take(), take())
  end
  return {'OK'}
end

local tokens, gates, answer = tonumber(take()), {}, {'OK', time_text(now)}
local levels = {}
for level = 1, tonumber(take()) do
  local of = {owner = take(), limits = {take(), take(), take()}, mine = take(), cells = {}}
  levels[level] = of
  for kind, field in ipairs({'q', 't'}) do
    local used, empty = 0, 0
    if of.limits[kind] ~= '' then
      of.cells[field], used = window_get(of.owner, field)
      empty = window_empty(of.cells[field])
      local wait = window_wait(of.cells[field], used, tonumber(of.limits[kind]), kind == 1 and 1 or tokens)
      gates[#gates + 1] = {level, kind, wait}
    end
    answer[#answer + 1], answer[#answer + 2] = time_text(used), time_text(empty)
  end
  if of.limits[3] ~= '' then
    local limit, wait = tonumber(of.limits[3]), 0
    if tonumber(of.mine) + others_in_flight(of.owner) > limit then wait = limit > 0 and SLOT_RETRY or -1 end
    gates[#gates + 1] = {level, 3, wait}
  end
end

-- The limit that takes longest is the one to name.
local worst
for _, gate in ipairs(gates) do
  if gate[3] ~= 0 and (not worst or gate[3] == -1 or (worst[3] ~= -1 and gate[3] > worst[3])) then worst = gate end
end
if worst then
  answer[1] = 'NO'
  for i = 1, 3 do
    answer[#answer + 1] = time_text(worst[i])
  end
  return answer
end
for _, of in ipairs(levels) do
  for field, cells in pairs(of.cells) do
    window_add(cells, field == 'q' and 1 or tokens)
    window_put(of.owner, field, cells)
  end
  if of.limits[3] ~= '' then mine_put(of.owner, of.mine) end
end
return answer
