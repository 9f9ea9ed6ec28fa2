-- Says which calls are open: their leases live on.
--   lives n {id}
-- -> OK {ids that are not known} {ids of tombstones}   EPOCH   STALE
local no = begin()
if no then return no end
local lives, missing, tombs = tonumber(take()), {}, {}
for _ = 1, tonumber(take()) do
  local id = take()
  if call('HEXISTS', base .. 'l:' .. who, id) == 1 then
    call('ZADD', base .. 'x', 'XX', time_text(now + lives), who .. '\n' .. id)
  elseif not reinstate(id, now + lives) then
    missing[#missing + 1] = id
  end
end
local found = call('HSCAN', base .. 't:' .. who, '0', 'COUNT', 64)[2]
for i = 1, math.min(#found, 128), 2 do
  tombs[#tombs + 1] = found[i]
end
return {'OK', missing, tombs}
