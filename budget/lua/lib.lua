-- What all scripts of the ledger share. KEYS[1] is how every key of the ledger begins, with the one hash tag of them all;
-- ARGV: who asks (a log, by name), the number of this operation, the epoch that it believes in, its time, its boot: the
-- name of one life of a process, so that what a dead one had sent is not done after its successor's hello.
--
--   e epoch   u closed until   n newest time ever seen   ops who -> last operation   seen who -> when it was last here
--   boot who -> boot   born who -> when that boot was first here
--   a:ACCOUNT  s settled, h held, p charged for leases that expired, k calls; what each log contributed: c:WHO settled,
--              v:WHO:BOOT overrun, d:WHO taken back by corrections
--   l:WHO id -> lease (held, accounts, owners; of a slice: spent)    t:WHO id -> tombstone of an expired lease
--   x leases by expiry    o owner -> held
--
-- Amounts are int64 in decimal text. Lua's numbers are doubles, so an amount is only ever compared in two exact halves,
-- thousands of millions and the rest, and added by HINCRBY. Nothing is written before everything was checked.
local base, who, op, epoch, now = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local call, sub, fmt, floor = redis.call, string.sub, string.format, math.floor
local HALF = 1000000000
local MAX_HIGH, MAX_LOW = 9223372036, 854775807
local EXPIRED_A_STEP = 16
local boot = ARGV[5]
local at = 6 -- of the next argument

local function take()
  at = at + 1
  return ARGV[at - 1]
end

local function halves(text)
  if not text or text == '' then return 0, 0 end
  local negative = sub(text, 1, 1) == '-'
  local digits = negative and sub(text, 2) or text
  local high, low = tonumber(sub(digits, 1, -10)) or 0, tonumber(sub(digits, -9))
  if negative then return -high, -low end
  return high, low
end

local function carried(high, low)
  local carry = floor(low / HALF)
  return high + carry, low - carry * HALF
end

local function sum(...)
  local high, low = 0, 0
  for i = 1, select('#', ...) do
    local h, l = halves((select(i, ...)))
    high, low = high + h, low + l
  end
  return carried(high, low)
end

local function above(high, low, limit)
  local h, l = sum(limit)
  return high > h or (high == h and low > l)
end

local function too_large(high, low)
  return high > MAX_HIGH or (high == MAX_HIGH and low > MAX_LOW)
end

local function negated(text)
  if text == '0' then return text end
  return sub(text, 1, 1) == '-' and sub(text, 2) or '-' .. text
end

local function text_of(high, low)
  if high < 0 and low > 0 then high, low = high + 1, low - HALF end
  local sign = (high < 0 or low < 0) and '-' or ''
  high, low = math.abs(high), math.abs(low)
  if high == 0 then return sign .. fmt('%d', low) end
  return sign .. fmt('%.0f%09d', high, low)
end

local function difference(a, b)
  return text_of(sum(a, negated(b)))
end

local function time_text(us)
  return fmt('%.0f', us)
end

local function account_of(name)
  return base .. 'a:' .. name
end

-- Adds a lease to what its accounts and owners hold (calls 1), or takes it away (-1).
local function stand(lease, amount, calls)
  for _, name in ipairs(lease[2]) do
    call('HINCRBY', account_of(name), 'h', amount)
    call('HINCRBY', account_of(name), 'k', calls)
  end
  for _, owner in ipairs(lease[3]) do
    call('HINCRBY', base .. 'o', owner, amount)
  end
end

local function charge(lease, amount)
  for _, name in ipairs(lease[2]) do
    call('HINCRBY', account_of(name), 'p', amount)
  end
end

local function lease_get(of, id)
  local packed = call('HGET', base .. 'l:' .. of, id)
  return packed and cmsgpack.unpack(packed)
end

local function lease_put(of, id, lease, expires)
  call('HSET', base .. 'l:' .. of, id, cmsgpack.pack(lease))
  call('ZADD', base .. 'x', time_text(expires), of .. '\n' .. id)
end

local function lease_drop(of, id)
  local lease = lease_get(of, id)
  if lease then
    stand(lease, negated(lease[1]), -1)
    call('HDEL', base .. 'l:' .. of, id)
  end
  call('ZREM', base .. 'x', of .. '\n' .. id)
end

local function tombstone_take(of, id)
  local packed = call('HGET', base .. 't:' .. of, id)
  if not packed then return nil end
  local lease = cmsgpack.unpack(packed)
  charge(lease, negated(lease[1]))
  call('HDEL', base .. 't:' .. of, id)
  return lease
end

-- An expired lease that its log says is open stands again.
local function reinstate(id, expires)
  local lease = tombstone_take(who, id)
  if not lease then return false end
  stand(lease, lease[1], 1)
  lease_put(who, id, lease, expires)
  return true
end

-- Expiry gives no money back: what was held is charged, until the log of the call has spoken.
local function expire()
  for _, member in ipairs(call('ZRANGEBYSCORE', base .. 'x', '-inf', time_text(now), 'LIMIT', 0, EXPIRED_A_STEP)) do
    local cut = string.find(member, '\n', 1, true)
    local of, id = sub(member, 1, cut - 1), sub(member, cut + 1)
    local lease = lease_get(of, id)
    lease_drop(of, id)
    if lease then
      charge(lease, lease[1])
      call('HSET', base .. 't:' .. of, id, cmsgpack.pack(lease))
    end
  end
end

-- A sum that a log tells never goes down, so telling it twice adds nothing.
local function grow(key, field, told_sum, into, back)
  local old = call('HGET', key, field) or '0'
  local high, low = sum(told_sum)
  if not above(high, low, old) then return end
  local more = difference(told_sum, old)
  call('HINCRBY', key, into, back and negated(more) or more)
  call('HSET', key, field, told_sum)
end

-- What the log `of` has settled in an account, all in all, and what corrections have taken back.
local function contribute(of, name, settled, overrun, lowered, keep_s)
  local key = account_of(name)
  grow(key, 'c:' .. of, settled, 's')
  grow(key, 'v:' .. of .. ':' .. boot, overrun, 'v') -- a life knows of its own alone
  grow(key, 'd:' .. of, lowered, 's', true)
  if keep_s ~= '' then call('EXPIRE', key, keep_s) end -- long after its period: sweeping, not money
end

local function contributions(of)
  for _ = 1, tonumber(take()) do
    contribute(of, take(), take(), take(), take(), take())
  end
end

-- What an account says: settled, held with what is charged for dead calls, overrun, calls, what is so charged.
local function told(name)
  local v = call('HMGET', account_of(name), 's', 'h', 'p', 'v', 'k')
  return v[1] or '0', text_of(sum(v[2] or '0', v[3] or '0')), v[4] or '0', v[5] or '0', v[3] or '0'
end

local function begin()
  if call('GET', base .. 'e') ~= epoch or call('HGET', base .. 'boot', who) ~= boot then return {'EPOCH'} end
  if op <= tonumber(call('HGET', base .. 'ops', who) or '0') then return {'STALE'} end
  now = math.max(now, tonumber(call('GET', base .. 'n') or '0'))
  call('SET', base .. 'n', time_text(now))
  call('HSET', base .. 'ops', who, ARGV[2])
  call('HSET', base .. 'seen', who, time_text(now))
  expire()
  return nil
end

local function closed()
  local until_us = call('GET', base .. 'u')
  return until_us and now < tonumber(until_us)
end
