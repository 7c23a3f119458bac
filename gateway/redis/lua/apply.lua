-- Takes in what an engine's events changed: its bits, its names, and how far its stream is applied, in one step.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    engine, fence, slot, numbers of which one must be the record's (|1|2|), reset ('', 'bits' or 'all'),
--         blocks gone from the GPU, from host memory, blocks new in the GPU, in host memory (8 bytes each),
--         names given (8 + 8 bytes), names forgotten (8 bytes), copies (8 bytes, length, that many), copies gone (8 bytes),
--         '1' if this is all of the batch, or its end; then fields and values of the engine's record
-- A reset moves the engine to a new slot before anything else; 'all' forgets the names too. Between the first call of a
-- batch and its last the record is marked, and nobody goes on from it; after the last, matches tell of the engine.
-- Answers {slot}, or error FENCED: the lease or the slot is another's, or the record is older than it was.
local base, engine = KEYS[1], ARGV[1]
local sub, byte = string.sub, string.byte
local record = base .. 'e:' .. engine
if call('GET', base .. 'o:' .. engine) ~= ARGV[2] then
  return redis.error_reply('FENCED the lease is another\'s')
end
local known = call('HMGET', record, 'slot', 'seq')
local slot = known[1] or ''
if ARGV[5] ~= 'all' then
  if slot ~= ARGV[3] then
    return redis.error_reply('FENCED the slot is another\'s')
  end
  if not string.find(ARGV[4], '|' .. (known[2] or '') .. '|', 1, true) then
    return redis.error_reply('FENCED the record is not as it was left')
  end
end

if ARGV[5] ~= '' or slot == '' then
  retire(base, slot)
  slot = call('SPOP', base .. 'free') or tostring(call('INCR', base .. 'next') - 1)
  call('HSET', record, 'slot', slot, 'gpu', 0, 'cpu', 0)
  if ARGV[5] == 'all' then
    call('HSET', record, 'seq', '')
    call('UNLINK', base .. 'n:' .. engine, base .. 'c:' .. engine)
  end
end

local blocks = base .. 'b'
local function drop(packed, tier, field)
  -- Redis numbers the bits of a byte from the highest; ^ 7 makes them those of a little-endian number.
  local bit, gone = bit.bxor(slot * 2 + tier, 7), 0
  for i = 1, #packed, 8 do
    local key = blocks .. sub(packed, i, i + 7)
    if call('GETBIT', key, bit) == 1 then
      call('SETBIT', key, bit, 0)
      gone = gone + 1
      if call('BITCOUNT', key) == 0 then call('DEL', key) end
    end
  end
  if gone > 0 then call('HINCRBY', record, field, -gone) end
end
local function put(packed, tier, field)
  local bit, new = bit.bxor(slot * 2 + tier, 7), 0
  for i = 1, #packed, 8 do
    new = new + 1 - call('SETBIT', blocks .. sub(packed, i, i + 7), bit, 1)
  end
  if new > 0 then call('HINCRBY', record, field, new) end
end
drop(ARGV[6], 0, 'gpu')
drop(ARGV[7], 1, 'cpu')
put(ARGV[8], 0, 'gpu')
put(ARGV[9], 1, 'cpu')

local function in_parts(command, key, parts)
  for i = 1, #parts, 4000 do
    call(command, key, unpack(parts, i, math.min(i + 3999, #parts)))
  end
end
local function fields(packed)
  local parts = {}
  for i = 1, #packed, 8 do parts[#parts + 1] = sub(packed, i, i + 7) end
  return parts
end
in_parts('HSET', base .. 'n:' .. engine, fields(ARGV[10]))
in_parts('HDEL', base .. 'n:' .. engine, fields(ARGV[11]))
local copies, i, packed = {}, 1, ARGV[12]
while i <= #packed do
  local length = byte(packed, i + 8)
  copies[#copies + 1] = sub(packed, i, i + 7)
  copies[#copies + 1] = sub(packed, i + 9, i + 8 + length)
  i = i + 9 + length
end
in_parts('HSET', base .. 'c:' .. engine, copies)
in_parts('HDEL', base .. 'c:' .. engine, fields(ARGV[13]))

if ARGV[14] == '1' then
  call('HSET', record, 'dirty', '', unpack(ARGV, 15))
  show(base, slot, engine)
else
  call('HSET', record, 'dirty', '1')
end
return {slot}
