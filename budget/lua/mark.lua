-- Who tells: the one whose step moved the mark.   account "w"|"r" value -> OK 1|0
local no = begin()
if no then return no end
local key, field, value = account_of(take()), take(), take()
local old = call('HGET', key, field)
if old and tonumber(old) >= tonumber(value) then return {'OK', 0} end
call('HSET', key, field, value)
return {'OK', 1}
