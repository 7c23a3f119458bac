-- Who holds how long a prefix of a chain: the places along it where the holders change.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV[1] the caller's version of the table of slots
-- ARGV[2] the chain: 8 bytes a block
-- Answers {version, table if the caller's is old else false, index, bitmap, index, bitmap, ...}. The last run ends at the
-- first block that nobody holds, which has bitmap ''.
local LINEAR, STRIDE, GROUP = 128, 64, 32
local base, chain = KEYS[1], ARGV[2]
local call, sub, floor = redis.call, string.sub, math.floor
local last = #chain / 8 - 1
local version = call('GET', base .. 'version') or ''
local answer, size = {version, false}, 2
if version ~= ARGV[1] then
  answer[2] = call('HGETALL', base .. 'slots')
end

local blocks = base .. 'b'
local function key(place)
  return blocks .. sub(chain, place * 8 + 1, place * 8 + 8)
end

local function change(place, bitmap)
  answer[size + 1], answer[size + 2] = place, bitmap or ''
  size = size + 2
  return bitmap
end

-- Tells the changes between two places that differ, in order, each narrowed down to two neighbours by looking at the
-- middle. Answers false where nobody holds the last of them: nothing after it matters.
local function narrow(low, high, before, after)
  if high - low == 1 then return change(high, after) end
  local middle = floor((low + high) / 2)
  local between = call('GET', key(middle))
  if between ~= before and not narrow(low, middle, before, between) then return false end
  return between == after or narrow(middle, high, between, after)
end

-- Looks at every `step`th block and the last one, a group at a time.
local step = last < LINEAR and 1 or STRIDE
local at, known = 0, call('GET', key(0))
change(0, known)
while known and at < last do
  local keys, count, place = {}, 0, at
  while count < GROUP and place < last do
    place = place + step < last and place + step or last
    count = count + 1
    keys[count] = key(place)
  end
  local found = call('MGET', unpack(keys))
  for n = 1, count do
    place = at + step < last and at + step or last
    if found[n] ~= known and not narrow(at, place, known, found[n]) then return answer end
    at, known = place, found[n]
  end
end
return answer
