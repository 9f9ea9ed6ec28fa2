-- Ends leases, and adds what the log has settled by now. Sent again and again until it is answered.
--   n {id} n {account settled overrun lowered keep_s}
-- -> OK {settled held overrun calls}...   EPOCH   STALE
local no = begin()
if no then return no end
for _ = 1, tonumber(take()) do
  local id = take()
  lease_drop(who, id)
  tombstone_take(who, id)
end
local first = at + 1
contributions(who)
local answer = {'OK'}
for i = first, at - 1, 5 do
  for _, word in ipairs({told(ARGV[i])}) do
    answer[#answer + 1] = word
  end
end
return answer
