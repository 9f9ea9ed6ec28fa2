-- What scripts share that pass calls by their rates, or lease some in advance.
--   r:OWNER  q, t: a minute of requests and of tokens, as cells {first last count}...; f:WHO calls in flight, and slots
--   leased beyond them, "boot:number"
--
-- A cell counts until a minute after its last instant. What is leased may be used as long as it lives, so its cell's last
-- instant is then: no sixty seconds hold more than a limit, whenever it is used. What was counted at an instant stands in
-- the newest cell that had begun.
local MINUTE, CELL, SLOT_RETRY, KEPT_S = 60000000, 1000000, 1000000, 3600
local OF_LEFT, CALLS = 8, 4 -- a slice is at most this part of what is left, and covers so many calls or is none

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

local function window_add(cells, count, lives)
  local n = #cells
  if count <= 0 then return end
  if n == 0 or now - cells[n - 2] >= CELL then
    cells[n + 1], cells[n + 2], cells[n + 3] = now, now + lives, count
  else
    cells[n - 1], cells[n] = math.max(cells[n - 1], now + lives), cells[n] + count
  end
end

local function window_take_back(cells, count, when)
  for i = #cells - 2, 1, -3 do
    if when >= cells[i] then
      if when <= cells[i + 1] then cells[i + 2] = math.max(0, cells[i + 2] - count) end
      return
    end
  end
end

local function window_wait(cells, used, limit, count)
  if count > limit then return -1 end
  local wait = 0
  for i = 1, #cells, 3 do
    if used <= limit - count then break end
    used = used - cells[i + 2]
    wait = math.max(wait, cells[i + 1] + MINUTE - now)
  end
  return wait
end

local function window_empty(cells)
  local last = now - MINUTE
  for i = 2, #cells, 3 do
    last = math.max(last, cells[i])
  end
  return last + MINUTE - now
end

-- What this process has told, and what others have that were here not longer ago than a lease lives.
local function in_flight(owner, lives)
  local all, mine, others = call('HGETALL', owner_key(owner)), 0, 0
  for i = 1, #all, 2 do
    local of = sub(all[i], 1, 2) == 'f:' and sub(all[i], 3)
    if of then
      local cut = string.find(all[i + 1], ':', 1, true)
      local same = call('HGET', base .. 'boot', of) == sub(all[i + 1], 1, cut - 1)
      local number = same and tonumber(sub(all[i + 1], cut + 1)) or 0
      if of == who then
        mine = number
      elseif now - tonumber(call('HGET', base .. 'seen', of) or '0') < lives then
        others = others + number
      end
    end
  end
  return mine, others
end

local function mine_put(owner, mine)
  call('HSET', owner_key(owner), 'f:' .. who, boot .. ':' .. fmt('%d', mine))
  call('EXPIRE', owner_key(owner), KEPT_S)
end

-- A step: calls (1, or 0: only to lease) tokens, how long a lease lives and a slice, {requests tokens} to lease, n {owner
-- requests tokens in_flight, calls of this process with this one, what it keeps of its slots, slots to lease}
local function step_read()
  local step = {calls = tonumber(take()), tokens = tonumber(take()), levels = {}}
  step.lease_lives, step.slice_lives = tonumber(take()), tonumber(take())
  step.wish = {tonumber(take()), tonumber(take())}
  for level = 1, tonumber(take()) do
    local of = {owner = take(), limits = {take(), take(), take()}, cells = {}, used = {}}
    of.mine, of.keep, of.spare = tonumber(take()), tonumber(take()), tonumber(take())
    step.levels[level] = of
  end
  step.need = {step.calls, step.calls * step.tokens}
  return step
end

local function longest(a, b)
  if b == 0 or a == -1 then return a end
  return (b == -1 or b > a) and b or a
end

-- Writes nothing. Of the limits that are reached, the one that takes longest is the one to name.
local function step_look(step)
  step.answer = {'OK', time_text(now)}
  local worst, answer = 0, step.answer
  for level, of in ipairs(step.levels) do
    for kind, field in ipairs({'q', 't'}) do
      local empty, wait = 0, 0
      of.used[kind] = 0
      if of.limits[kind] ~= '' then
        of.cells[kind], of.used[kind] = window_get(of.owner, field)
        empty = window_empty(of.cells[kind])
        wait = window_wait(of.cells[kind], of.used[kind], tonumber(of.limits[kind]), step.need[kind])
      end
      answer[#answer + 1], answer[#answer + 2] = time_text(of.used[kind]), time_text(empty)
      if longest(worst, wait) ~= worst then worst, step.no = wait, {level, kind, wait} end
    end
    if of.limits[3] ~= '' then
      local limit, wait = tonumber(of.limits[3]), 0
      of.have, of.others = in_flight(of.owner, step.lease_lives)
      if of.mine + of.others > limit then wait = limit > 0 and SLOT_RETRY or -1 end
      if longest(worst, wait) ~= worst then worst, step.no = wait, {level, 3, wait} end
    end
  end
  return step.calls == 0 or not step.no
end

-- How much of each kind is leased: the same at all levels; -1 where nothing limits it.
local function step_lease(step)
  local lease, good = {-1, -1}, true
  for _, of in ipairs(step.levels) do
    for kind = 1, 2 do
      if of.limits[kind] ~= '' then
        local left = floor((tonumber(of.limits[kind]) - of.used[kind] - step.need[kind]) / OF_LEFT)
        local most = math.min(step.wish[kind], left)
        lease[kind] = lease[kind] == -1 and most or math.min(lease[kind], most)
      end
    end
  end
  for kind, least in ipairs({CALLS, CALLS * step.tokens}) do
    good = good and (lease[kind] == -1 or (lease[kind] > 0 and lease[kind] >= least))
  end
  return good and lease or {0, 0}
end

local function step_slots(of)
  if of.limits[3] == '' then return 0 end
  local left = floor((tonumber(of.limits[3]) - of.others - of.mine) / OF_LEFT)
  local all = math.max(of.mine + math.max(0, math.min(of.spare, left)), math.min(of.have, of.keep))
  mine_put(of.owner, all)
  return all
end

local function step_take(step)
  local answer, lease = step.answer, step_lease(step)
  for kind = 1, 2 do
    answer[#answer + 1] = time_text(lease[kind])
  end
  for _, of in ipairs(step.levels) do
    for kind, field in ipairs({'q', 't'}) do
      if of.cells[kind] then
        window_add(of.cells[kind], step.need[kind], 0)
        window_add(of.cells[kind], lease[kind], step.slice_lives)
        window_put(of.owner, field, of.cells[kind])
      end
    end
    answer[#answer + 1] = time_text(step_slots(of))
  end
  return answer
end

local function step_refuse(step)
  local answer = step.answer
  answer[1] = 'NO'
  for i = 1, 3 do
    answer[#answer + 1] = time_text(step.no[i])
  end
  return answer
end
