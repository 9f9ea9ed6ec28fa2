-- Ends leases, adds what the log has settled by now, and tells what slices spent of it. Sent again and again until it is
-- answered. Of a slice: all that it spent, and all that is granted to it where that became less ("": as it is).
--   n {id} n {account settled overrun lowered keep_s} n {id spent granted}
-- -> OK {settled held overrun calls charged}...   EPOCH   STALE
local no = begin()
if no then return no end
for _ = 1, tonumber(take()) do
  local id = take()
  lease_drop(who, id)
  tombstone_take(who, id)
end
local first = at + 1
contributions(who)
local last = at - 1

local function larger(a, b)
  local high, low = sum(a)
  return above(high, low, b) and a or b
end

-- One that has expired stands for this step only.
local function slice(id, spent, granted)
  local lease = lease_get(who, id) or (reinstate(id, now) and lease_get(who, id))
  if not lease then return end
  local old = lease[4] or '0'
  local all = text_of(sum(lease[1], old))
  spent = larger(spent, old)
  if granted ~= '' and larger(all, granted) == all then all = larger(granted, spent) end
  local left = difference(all, spent)
  stand(lease, difference(left, lease[1]), 0)
  lease[1], lease[4] = left, spent
  call('HSET', base .. 'l:' .. who, id, cmsgpack.pack(lease))
end

for _ = 1, tonumber(take()) do
  slice(take(), take(), take())
end
local answer = {'OK'}
for i = first, last, 5 do
  for _, word in ipairs({told(ARGV[i])}) do
    answer[#answer + 1] = word
  end
end
return answer
