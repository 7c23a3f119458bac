-- Takes the lease of an engine's event stream if it is free, or the gateway's own already: an answer may have been lost.
-- What was known of the engine is not told any more until its owner has caught up with the stream and written.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    engine, gateway, milliseconds, '1' if its holder shall hear that it is wanted
-- Answers {fence, field, value, ...} with the engine's record, or false: another has it.
local base, engine = KEYS[1], ARGV[1]
local lease, record = base .. 'o:' .. engine, base .. 'e:' .. engine
local holder = call('GET', lease)
if holder and string.sub(holder, 1, #ARGV[2] + 1) ~= ARGV[2] .. ' ' then
  if ARGV[4] == '1' then call('SET', base .. 'w:' .. engine, ARGV[2], 'PX', ARGV[3]) end
  return false
end
hide(base, call('HGET', record, 'slot'))
local fence = ARGV[2] .. ' ' .. call('HINCRBY', record, 'token', 1)
call('SET', lease, fence, 'PX', ARGV[3])
call('DEL', base .. 'w:' .. engine)
call('HDEL', record, 'orphaned')
call('SADD', base .. 'engines', engine)
local answer = call('HGETALL', record)
table.insert(answer, 1, fence)
return answer
