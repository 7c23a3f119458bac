-- Gives an engine's lease back; what is known of the engine stays, or goes with it.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    engine, fence, 'keep' or 'forget'
-- Answers 1, or 0: the lease is another's.
local base, engine = KEYS[1], ARGV[1]
local lease, record = base .. 'o:' .. engine, base .. 'e:' .. engine
if redis.call('GET', lease) ~= ARGV[2] then
  return 0
end
redis.call('DEL', lease)
if ARGV[3] == 'forget' then
  local slot = redis.call('HGET', record, 'slot')
  if slot then
    redis.call('HDEL', base .. 'slots', slot)
    redis.call('HSET', base .. 'retired', slot, redis.call('INCR', base .. 'changes'))
    local now = redis.call('TIME')
    redis.call('SET', base .. 'version', now[1] .. '.' .. now[2] .. '.' .. redis.call('INCR', base .. 'changes'))
  end
  redis.call('UNLINK', base .. 'n:' .. engine, base .. 'c:' .. engine, record)
  redis.call('SREM', base .. 'engines', engine)
end
return 1
