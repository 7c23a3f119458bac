-- What blocks' keys hold. This comes before the text of the scripts that read them.
local MOST = 4000 -- values at once that fit on Lua's stack

-- The bitmaps of the first so many of some keys, false where nobody holds the block.
local function bitmaps(keys, count)
  local found = redis.call('MGET', unpack(keys, 1, math.min(count, MOST)))
  for first = MOST + 1, count, MOST do
    local more = redis.call('MGET', unpack(keys, first, math.min(first + MOST - 1, count)))
    for i = 1, #more do found[first + i - 1] = more[i] end
  end
  return found
end
