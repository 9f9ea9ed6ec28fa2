-- Looks whether this is the Redis that the ledger knew. ARGV: who, the last operation that was answered, the epoch that
-- it knew ("" none), its time, its boot, a new epoch if one is needed, how long the ledger is then closed.
-- -> epoch, last operation, closed until, time
local fresh, lives = take(), tonumber(take())
now = math.max(now, tonumber(call('GET', base .. 'n') or '0'))
local current = call('GET', base .. 'e')
local last = call('HGET', base .. 'ops', who) or '0'
local function age(name) -- epochs are numbered, so that one who meets a newer one knows that others have seen the loss
  return tonumber(string.match(name or '', '^%d+')) or 0
end
local older = age(current) < age(epoch) or (current == epoch and tonumber(last) < op)
if not current or older then
  current = fmt('%d-', math.max(age(current), age(epoch)) + 1) .. fresh
  call('SET', base .. 'e', current)
  call('SET', base .. 'u', time_text(now + lives))
end
call('SET', base .. 'n', time_text(now))
if call('HGET', base .. 'boot', who) ~= boot then call('HSET', base .. 'born', who, time_text(now)) end
call('HSET', base .. 'boot', who, boot)
return {current, last, call('GET', base .. 'u') or '0', time_text(now)}
