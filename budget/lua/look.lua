-- What accounts say, for people: n {account} -> OK {settled held overrun calls charged}...
local answer = {'OK'}
for _ = 1, tonumber(take()) do
  for _, word in ipairs({told(take())}) do
    answer[#answer + 1] = word
  end
end
return answer
