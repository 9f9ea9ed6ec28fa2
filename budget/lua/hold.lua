-- with rates.lua
-- Sets an amount aside at all levels or at none; raises a hold that stands.
-- A slice is asked for by all that was ever granted to it.
-- The rates of the same call, or of the same slice, may be asked for with it. They come first: a call that its rates refuse
-- is not held; what passes them has passed, whatever becomes of the money.
--   id amount lives "hold"|"raise"|"slice" free n {account limit share sharer keep_s} owners {owner} "rates"|"" {a step}
-- -> OK amount {settled held overrun calls charged}...   NO i budget|share need {...}   GONE   FULL   CLOSED   LIMIT   EPOCH   STALE
--    and, last, what the step says (rate.lua)
local no = begin()
if no then return no end
local id, amount, lives, mode, free = take(), take(), tonumber(take()), take(), take() == '1'
local scopes, owners = {}, {}
for i = 1, tonumber(take()) do
  scopes[i] = {name = take(), limit = take(), share = take(), sharer = take(), keep_s = take()}
end
for i = 1, tonumber(take()) do
  owners[i] = take()
end
local step = take() == 'rates' and step_read()
if step and not step_look(step) then return {'LIMIT', step_refuse(step)} end
local function answered(answer)
  if step then answer[#answer + 1] = step_take(step) end
  return answer
end

if closed() then return answered({'CLOSED'}) end
reinstate(id, now + lives)
local lease = lease_get(who, id)
if mode == 'raise' and not lease then return answered({'GONE'}) end
local own = lease and lease[1] or '0'
if mode == 'slice' then amount = difference(amount, lease and lease[4] or '0') end
local stands = {}
for _, name in ipairs(lease and lease[2] or {}) do
  stands[name] = true
end
local function concerns(scope)
  return not lease or stands[scope.name]
end
if mode == 'hold' and lease then -- asked again: it is not made smaller
  local high, low = sum(own)
  if above(high, low, amount) then amount = own end
end
local need = difference(amount, own)
local grows = not lease or (sub(need, 1, 1) ~= '-' and need ~= '0')

local function accounts_told(answer)
  for _, scope in ipairs(scopes) do
    for _, word in ipairs({told(scope.name)}) do
      answer[#answer + 1] = word
    end
  end
  return answered(answer)
end

local function fits(scope)
  local v = call('HMGET', account_of(scope.name), 's', 'h', 'p')
  local high, low = sum(v[1] or '0', v[2] or '0', v[3] or '0', need)
  if too_large(high, low) then return false, scope.limit == '' end
  return free or scope.limit == '' or not above(high, low, scope.limit), false
end

local function share_left(scope)
  if scope.share == '' or scope.sharer == '' or need == '0' then return true end
  local held = call('HGET', base .. 'o', scope.sharer) or '0'
  if held == own and mode ~= 'slice' then return true end
  local high, low = sum(held, need)
  return not above(high, low, scope.share)
end

if grows then
  for i, scope in ipairs(scopes) do
    if concerns(scope) then
      local good, full = fits(scope)
      if full then return answered({'FULL'}) end
      if not good then return accounts_told({'NO', i, 'budget', need}) end
    end
  end
  for i, scope in ipairs(scopes) do
    if concerns(scope) and not share_left(scope) then return accounts_told({'NO', i, 'share', need}) end
  end
end

if lease then
  stand(lease, need, 0)
  lease[1] = amount
else
  local names = {}
  for i, scope in ipairs(scopes) do
    names[i] = scope.name
  end
  lease = {amount, names, owners}
  stand(lease, amount, 1)
end
lease_put(who, id, lease, now + lives)
for _, scope in ipairs(scopes) do
  if scope.keep_s ~= '' then call('EXPIRE', account_of(scope.name), scope.keep_s) end
end
return accounts_told({'OK', amount})
