-- Where along some chains the holders change.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV[1] the caller's version of the table of slots
-- ARGV[2] the blocks of all chains, 8 bytes each
-- ARGV[3] of each chain, 8 bytes each: how many blocks are its, and a stride: every so manieth of them is looked at and
--         the last one, and between two that differ as many as it takes
-- Answers {version, table if the caller's is old else false, index, bitmap, index, bitmap, ...} with the first block of
-- each chain and those with other holders than the one before, in no order. Of a block that nobody holds, the bitmap is
-- '', and what comes after it in the chain is not told.
local base, call, sub, floor = KEYS[1], redis.call, string.sub, math.floor
local prefix, chains, shapes = base .. 'b', ARGV[2], ARGV[3]
local version = call('GET', base .. 'version') or ''
local answer, size = {version, version ~= ARGV[1] and call('HGETALL', base .. 'slots')}, 2

local function tell(index, bitmap)
  answer[size + 1], answer[size + 2] = index, bitmap or ''
  size = size + 2
end

-- Blocks whose holders differ, with others between them: four values each, two indices and their bitmaps.
local apart, wide = {}, 0
local function differ(low, high, before, after)
  if high - low == 1 then return tell(high, after) end
  apart[wide + 1], apart[wide + 2], apart[wide + 3], apart[wide + 4] = low, high, before, after
  wide = wide + 4
end

local keys, places, count, first = {}, {}, 0, 0
for i = 1, #shapes, 16 do
  local length, stride = struct.unpack('<I8I8', shapes, i)
  local last = first + length - 1
  for index = first, last - 1, stride do
    count = count + 1
    keys[count], places[count] = prefix .. sub(chains, index * 8 + 1, index * 8 + 8), index
  end
  count = count + 1
  keys[count], places[count] = prefix .. sub(chains, last * 8 + 1, last * 8 + 8), last
  first = last + 1
end
local found, at = bitmaps(keys, count), 1
first = 0
for i = 1, #shapes, 16 do
  local last, known = first + struct.unpack('<I8', shapes, i) - 1, found[at]
  tell(first, known)
  while places[at] < last do
    at = at + 1
    if known and found[at] ~= known then
      differ(places[at - 1], places[at], known, found[at])
      known = found[at]
    end
  end
  at, first = at + 1, last + 1
end

while wide > 0 do
  local ends, width = apart, wide
  apart, wide, count = {}, 0, 0
  for i = 1, width, 4 do
    local middle = floor((ends[i] + ends[i + 1]) / 2)
    count = count + 1
    keys[count] = prefix .. sub(chains, middle * 8 + 1, middle * 8 + 8)
  end
  found = bitmaps(keys, count)
  for i = 1, width, 4 do
    local low, high, before, after = unpack(ends, i, i + 3)
    local middle, between = floor((low + high) / 2), found[(i + 3) / 4]
    if between ~= before then differ(low, middle, before, between) end
    if between and between ~= after then differ(middle, high, between, after) end
  end
end
return answer
