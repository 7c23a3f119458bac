-- One page of an engine's names, each with the tiers that hold its block.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    engine, fence, slot, cursor, names to look at
-- Answers {next cursor, names (engine's 8 bytes, ours 8 bytes), for each a digit '0' to '3' (1: GPU, 2: host memory)}, or
-- error FENCED: the lease is another's, or gone with a server in whose place another one came, of which no page fits.
local base, engine, slot = KEYS[1], ARGV[1], ARGV[3]
if redis.call('GET', base .. 'o:' .. engine) ~= ARGV[2] then
  return redis.error_reply('FENCED the lease is another\'s')
end
local page = redis.call('HSCAN', base .. 'n:' .. engine, ARGV[4], 'COUNT', ARGV[5])
local names, keys, count = page[2], {}, 0
for i = 2, #names, 2 do
  count = count + 1
  keys[count] = base .. 'b' .. names[i]
end
if count == 0 then return {page[1], '', ''} end

-- A bitmap's bytes are those of a little-endian number, in which both bits of a slot are side by side.
local at, shift = math.floor(slot / 4) + 1, slot % 4 * 2
-- By bitmap: of most blocks it is the same.
local digits = {[false] = '0'}
local held = bitmaps(keys, count)
for i = 1, count do
  local bitmap = held[i]
  digits[bitmap] = digits[bitmap] or tostring(bit.band(bit.rshift(string.byte(bitmap, at) or 0, shift), 3))
  held[i] = digits[bitmap]
end
return {page[1], table.concat(names), table.concat(held)}
