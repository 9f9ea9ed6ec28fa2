-- Looks whether this is the Redis that the ledger knew. ARGV: who, the last operation that was answered, the epoch that
-- it knew ("" none), its time, its boot, a new epoch if one is needed, how long the ledger is then closed.
-- -> epoch, last operation, closed until, time
local fresh, lives = take(), tonumber(take())
now = math.max(now, tonumber(call('GET', base .. 'n') or '0'))
local current = call('GET', base .. 'e')
local last = call('HGET', base .. 'ops', who) or '0'
if not current or tonumber(last) < op then
  current = fresh
  call('SET', base .. 'e', fresh)
  call('SET', base .. 'u', time_text(now + lives))
end
call('SET', base .. 'n', time_text(now))
call('HSET', base .. 'boot', who, boot)
return {current, last, call('GET', base .. 'u') or '0', time_text(now)}
