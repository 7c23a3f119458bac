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

-- The pieces of 8 bytes of a string, each after something else.
local function pieces(before, packed)
  local parts, count = {}, 0
  for i = 1, #packed, 8 do
    count = count + 1
    parts[count] = before .. sub(packed, i, i + 7)
  end
  return parts, count
end
-- Calls f with as many parts at once as fit on Lua's stack.
local function in_parts(f, parts)
  for i = 1, #parts, MOST do f(unpack(parts, i, math.min(i + MOST - 1, #parts))) end
end

-- What there is to know of the bit of this engine in a tier.
local function bit_of(tier)
  local number = slot * 2 + tier
  local at, mask = math.floor(number / 8), 2 ^ (number % 8)
  local alone = string.rep('\0', at) .. string.char(mask)
  local function is_in(bitmap)
    return bit.band(byte(bitmap, at + 1) or 0, mask) ~= 0
  end
  local function is_all_of(bitmap)
    return bitmap == alone .. string.rep('\0', #bitmap - at - 1)
  end
  -- Redis numbers the bits of a byte from the highest; ^ 7 makes them those of a little-endian number.
  return alone, is_in, is_all_of, bit.bxor(number, 7)
end
local function drop(packed, tier, field)
  if packed == '' then return end
  local alone, is_in, is_all_of, offset = bit_of(tier)
  local keys, count = pieces(base .. 'b', packed)
  local found, gone, empty = bitmaps(keys, count), 0, {}
  for i = 1, count do
    local bitmap = found[i]
    if bitmap and (bitmap == alone or is_in(bitmap)) then
      gone = gone + 1
      if bitmap == alone or is_all_of(bitmap) then
        empty[#empty + 1] = keys[i]
      else
        call('SETBIT', keys[i], offset, 0)
      end
    end
  end
  in_parts(function(...) call('DEL', ...) end, empty)
  if gone > 0 then call('HINCRBY', record, field, -gone) end
end
local function put(packed, tier, field)
  if packed == '' then return end
  local alone, is_in, _, offset = bit_of(tier)
  local keys, count = pieces(base .. 'b', packed)
  local found, new, fresh, size = bitmaps(keys, count), 0, {}, 0
  for i = 1, count do
    local bitmap = found[i]
    if not bitmap then
      -- Set all at once: half the time of a bit each, and less room.
      fresh[size + 1], fresh[size + 2] = keys[i], alone
      size = size + 2
    elseif not is_in(bitmap) then
      new = new + 1
      call('SETBIT', keys[i], offset, 1)
    end
  end
  in_parts(function(...) call('MSET', ...) end, fresh)
  new = new + size / 2
  if new > 0 then call('HINCRBY', record, field, new) end
end
drop(ARGV[6], 0, 'gpu')
drop(ARGV[7], 1, 'cpu')
put(ARGV[8], 0, 'gpu')
put(ARGV[9], 1, 'cpu')

local names, places = base .. 'n:' .. engine, base .. 'c:' .. engine
in_parts(function(...) call('HSET', names, ...) end, pieces('', ARGV[10]))
in_parts(function(...) call('HDEL', names, ...) end, pieces('', ARGV[11]))
local copies, i, packed = {}, 1, ARGV[12]
while i <= #packed do
  local length = byte(packed, i + 8)
  copies[#copies + 1] = sub(packed, i, i + 7)
  copies[#copies + 1] = sub(packed, i + 9, i + 8 + length)
  i = i + 9 + length
end
in_parts(function(...) call('HSET', places, ...) end, copies)
in_parts(function(...) call('HDEL', places, ...) end, pieces('', ARGV[13]))

if ARGV[14] == '1' then
  call('HSET', record, 'dirty', '', unpack(ARGV, 15))
  show(base, slot, engine)
else
  call('HSET', record, 'dirty', '1')
end
return {slot}
