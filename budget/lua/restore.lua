-- Leases that were granted and that Redis has lost stand again, whatever limits say now.
--   lives n {id amount spent n {account} n {owner}}
-- -> OK   EPOCH   STALE
local no = begin()
if no then return no end
local lives = tonumber(take())
for _ = 1, tonumber(take()) do
  local id, lease = take(), {take(), {}, {}, take()}
  for part = 2, 3 do
    for i = 1, tonumber(take()) do
      lease[part][i] = take()
    end
  end
  if not lease_get(who, id) and not reinstate(id, now + lives) then
    stand(lease, lease[1], 1)
    lease_put(who, id, lease, now + lives)
  end
end
return {'OK'}
