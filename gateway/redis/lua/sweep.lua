-- One step of a pass over all blocks that clears the bits of retired slots.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    cursor, keys to look at, then slot, number of its retirement, ...
-- Answers the next cursor, or '0': the pass is over. If all of it was made on one server every slot that is still retired
-- under its number is free for reuse. On one that took its place, from a snapshot or as its replica, a cursor of the old
-- one means other keys.
local base = KEYS[1]
local call = redis.call
local info = redis.pcall('INFO', 'server')
-- Who may not ask goes on as if it were always the same.
local server = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local cursor, begun = string.match(ARGV[1], '^(%d+)@(.*)$')
if cursor and begun ~= server then
  return '0'
end
local slots = {}
for i = 3, #ARGV, 2 do
  if call('HGET', base .. 'retired', ARGV[i]) == ARGV[i + 1] then
    slots[#slots + 1] = ARGV[i]
  end
end
if #slots == 0 then
  return '0'
end
local page = call('SCAN', cursor or ARGV[1], 'MATCH', base .. 'b????????', 'COUNT', ARGV[2])
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
  return '0'
end
return page[1] .. '@' .. server
