-- One page of an engine's names, each with the tiers that hold its block.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    engine, slot, cursor, names to look at
-- Answers {next cursor, names packed: engine's 8 bytes, ours 8 bytes, '0' to '3' (1: GPU, 2: host memory)}.
local base, engine, slot = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
local page = call('HSCAN', base .. 'n:' .. engine, ARGV[3], 'COUNT', ARGV[4])
local pairs_ = page[2]
local parts = {}
local gpu, cpu = bit.bxor(slot * 2, 7), bit.bxor(slot * 2 + 1, 7)
for i = 1, #pairs_, 2 do
  local key = base .. 'b' .. pairs_[i + 1]
  parts[#parts + 1] = pairs_[i] .. pairs_[i + 1] .. (call('GETBIT', key, gpu) + 2 * call('GETBIT', key, cpu))
end
return {page[1], table.concat(parts)}
