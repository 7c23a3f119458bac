-- Which engine has which slot.
--
-- KEYS[1] what all keys of the model begin with
-- Answers {version, slot, engine, slot, engine, ...}
local answer = redis.call('HGETALL', KEYS[1] .. 'slots')
table.insert(answer, 1, redis.call('GET', KEYS[1] .. 'version') or '')
return answer
