-- Who holds how long a prefix of a chain: the places along it where the holders change.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV[1] the caller's version of the table of slots
-- ARGV[2] the chain: 8 bytes a block
-- Answers {version, table if the caller's is old else false, index, bitmap, index, bitmap, ...}. A run ends at the first
-- block that nobody holds, which has bitmap ''.
local LINEAR, STRIDE = 128, 32
local base, chain = KEYS[1], ARGV[2]
local count = #chain / 8
local version = redis.call('GET', base .. 'version') or ''
local answer = {version, false}
if version ~= ARGV[1] then
  answer[2] = redis.call('HGETALL', base .. 'slots')
end
local blocks = base .. 'b'
local call, sub = redis.call, string.sub
local function key(i)
  return blocks .. sub(chain, i * 8 + 1, i * 8 + 8)
end
local size = 2
local function change(i, bitmap)
  answer[size + 1], answer[size + 2] = i, bitmap or ''
  size = size + 2
end

-- Looks at every `step`th block and the last one, in groups; where two neighbours differ, at the blocks between them.
local step = count <= LINEAR and 1 or STRIDE
local known = call('GET', key(0))
change(0, known)
local at = 0
while known and at < count - 1 do
  local keys, places = {}, {}
  local place = at
  while #keys < 32 and place < count - 1 do
    place = place + step
    if place > count - 1 then place = count - 1 end
    keys[#keys + 1], places[#places + 1] = key(place), place
  end
  local found = call('MGET', unpack(keys))
  for n = 1, #keys do
    local upto, value = places[n], found[n]
    while known and value ~= known do
      -- The first change behind `at`: narrowed down to two neighbours.
      local same, other, there = at, upto, value
      while other - same > 1 do
        local middle = math.floor((same + other) / 2)
        local seen = call('GET', key(middle))
        if seen == known then same = middle else other, there = middle, seen end
      end
      at, known = other, there
      change(at, known)
    end
    if not known then break end
    at = upto
  end
end
return answer
