-- Says that a gateway is there, and tells who else is.
--
-- KEYS[1] the set of gateways
-- ARGV    gateway, milliseconds that its word counts; 0: it leaves
-- Answers the gateways that are there.
local now = redis.call('TIME')
local millis = now[1] * 1000 + math.floor(now[2] / 1000)
if ARGV[2] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], millis + ARGV[2], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', millis)
return redis.call('ZRANGE', KEYS[1], 0, -1)
