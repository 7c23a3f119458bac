-- Says which models are served, and tells which ever were and may have left something behind.
--
-- KEYS[1] the set of models
-- ARGV    models that are served by who asks
-- Answers all.
if #ARGV > 0 then redis.call('SADD', KEYS[1], unpack(ARGV)) end
return redis.call('SMEMBERS', KEYS[1])
