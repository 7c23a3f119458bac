-- One step of a pass over all blocks that clears the bits of retired slots.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    cursor, keys to look at, then slot, number of its retirement, ...
-- Answers the next cursor; after '0' every slot that is still retired under its number is free for reuse.
local base = KEYS[1]
local call = redis.call
local slots = {}
for i = 3, #ARGV, 2 do
  if call('HGET', base .. 'retired', ARGV[i]) == ARGV[i + 1] then
    slots[#slots + 1] = ARGV[i]
  end
end
if #slots == 0 then
  return '0'
end
local page = call('SCAN', ARGV[1], 'MATCH', base .. 'b????????', 'COUNT', ARGV[2])
for _, key in ipairs(page[2]) do
  local cleared = false
  for _, slot in ipairs(slots) do
    for tier = 0, 1 do
      local offset = bit.bxor(slot * 2 + tier, 7)
      if call('GETBIT', key, offset) == 1 then
        call('SETBIT', key, offset, 0)
        cleared = true
      end
    end
  end
  if cleared and call('BITCOUNT', key) == 0 then
    call('DEL', key)
  end
end
if page[1] == '0' then
  for _, slot in ipairs(slots) do
    call('HDEL', base .. 'retired', slot)
    call('SADD', base .. 'free', slot)
  end
end
return page[1]
