-- A log has spoken: what it has settled, and with "end" that none of its calls is open any more.
-- What is known of a log of another ends where a new life of its own process begins.
--   log known_at lives "end"|"more" n {account settled overrun lowered keep_s}
-- -> OK more|done   LIVE (its process was here not long ago: it is asked again later)   EPOCH   STALE
local no = begin()
if no then return no end
local log, known_at, lives, last = take(), tonumber(take()), tonumber(take()), take() == 'end'
local STEP = 256
if log ~= who then
  local seen, born = tonumber(call('HGET', base .. 'seen', log) or '0'), tonumber(call('HGET', base .. 'born', log) or '0')
  last = last and born <= known_at
  if last and now < seen + lives then return {'LIVE'} end
end
contributions(log)
if not last then return {'OK', 'done'} end
local leases = call('HSCAN', base .. 'l:' .. log, '0', 'COUNT', STEP)[2]
for i = 1, #leases, 2 do
  lease_drop(log, leases[i])
end
local tombs = call('HSCAN', base .. 't:' .. log, '0', 'COUNT', STEP)[2]
for i = 1, #tombs, 2 do
  tombstone_take(log, tombs[i])
end
local left = call('HLEN', base .. 'l:' .. log) + call('HLEN', base .. 't:' .. log)
return {'OK', left > 0 and 'more' or 'done'}
