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
local answer = {version, false}
if version ~= ARGV[1] then
  answer[2] = call('HGETALL', base .. 'slots')
end

local blocks = base .. 'b'
local function bitmaps(places)
  local keys = {}
  for n = 1, #places do
    keys[n] = blocks .. sub(chain, places[n] * 8 + 1, places[n] * 8 + 8)
  end
  return call('MGET', unpack(keys))
end

-- Looks at every `step`th block and the last one, a group at a time. Between two neighbours that differ it looks at the
-- middle, at all such middles of a group at once, until every change is narrowed down to two blocks.
local step = last < LINEAR and 1 or STRIDE
local at, known = 0, bitmaps({0})[1]
local size = 4
answer[3], answer[4] = 0, known or ''
while known and at < last do
  local places, place = {}, at
  while #places < GROUP and place < last do
    place = place + step
    if place > last then place = last end
    places[#places + 1] = place
  end
  local found = bitmaps(places)
  local changes, bitmap = {}, {}
  local lows, highs, low_values, high_values = {}, {}, {}, {}
  for n = 1, #places do
    local value = found[n]
    if value ~= known then
      if places[n] - at == 1 then
        changes[#changes + 1], bitmap[places[n]] = places[n], value
      else
        local open = #lows + 1
        lows[open], highs[open], low_values[open], high_values[open] = at, places[n], known, value
      end
    end
    at, known = places[n], value
    if not known then break end
  end
  while #lows > 0 do
    local middles = {}
    for n = 1, #lows do middles[n] = floor((lows[n] + highs[n]) / 2) end
    local values = bitmaps(middles)
    local lows_, highs_, low_values_, high_values_ = {}, {}, {}, {}
    local function narrow(low, high, low_value, high_value)
      if low_value == high_value then return end
      if high - low == 1 then
        changes[#changes + 1], bitmap[high] = high, high_value
      else
        local open = #lows_ + 1
        lows_[open], highs_[open], low_values_[open], high_values_[open] = low, high, low_value, high_value
      end
    end
    for n = 1, #middles do
      narrow(lows[n], middles[n], low_values[n], values[n])
      narrow(middles[n], highs[n], values[n], high_values[n])
    end
    lows, highs, low_values, high_values = lows_, highs_, low_values_, high_values_
  end
  table.sort(changes)
  for n = 1, #changes do
    answer[size + 1], answer[size + 2] = changes[n], bitmap[changes[n]] or ''
    size = size + 2
    if not bitmap[changes[n]] then return answer end
  end
end
return answer
