-- Forgets engines whose lease nobody has wanted for long: they left while no gateway watched them.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    seconds
-- Answers how many were forgotten.
local base = KEYS[1]
local now = call('TIME')
local forgotten = 0
for _, engine in ipairs(call('SMEMBERS', base .. 'engines')) do
  local record = base .. 'e:' .. engine
  if call('EXISTS', base .. 'o:' .. engine) == 0 then
    local since = call('HGET', record, 'orphaned')
    if not since then
      call('HSET', record, 'orphaned', now[1])
    elseif now[1] - since >= tonumber(ARGV[1]) then
      retire(base, call('HGET', record, 'slot'))
      call('UNLINK', base .. 'n:' .. engine, base .. 'c:' .. engine, record)
      call('SREM', base .. 'engines', engine)
      forgotten = forgotten + 1
    end
  end
end
return forgotten
