-- One page of an engine's names, each with the tiers that hold its block.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    engine, slot, cursor, names to look at
-- Answers {next cursor, names packed: engine's 8 bytes, ours 8 bytes, '0' to '3' (1: GPU, 2: host memory)}.
local base, engine, slot = KEYS[1], ARGV[1], ARGV[2]
local call, byte = redis.call, string.byte
local page = call('HSCAN', base .. 'n:' .. engine, ARGV[3], 'COUNT', ARGV[4])
local names, parts = page[2], {}
-- A bitmap's bytes are those of a little-endian number, in which both bits of a slot are side by side.
local at, shift = math.floor(slot / 4) + 1, slot % 4 * 2
-- As many at once as fit on Lua's stack; a small hash comes as one page, whatever was asked for.
for first = 1, #names, 4000 do
  local last, keys = math.min(first + 3999, #names), {}
  for n = first + 1, last, 2 do keys[#keys + 1] = base .. 'b' .. names[n] end
  local bitmaps = call('MGET', unpack(keys))
  for n = 1, #keys do
    local name, tiers = first + 2 * n - 2, bitmaps[n] and byte(bitmaps[n], at) or 0
    parts[#parts + 1] = names[name] .. names[name + 1] .. bit.band(bit.rshift(tiers, shift), 3)
  end
end
return {page[1], table.concat(parts)}
