-- Which engine has which slot. This comes before the text of every script that changes it.
local call = redis.call

-- Has all gateways read the table again. Answers a word that is given once, whatever becomes of the server.
local function new_version(base)
  local now = call('TIME')
  local version = now[1] .. '.' .. now[2] .. '.' .. call('INCR', base .. 'changes')
  call('SET', base .. 'version', version)
  return version
end

-- From now on no match tells of the engine in this slot. Its bits stay: `show` takes it back.
local function hide(base, slot)
  if slot and call('HDEL', base .. 'slots', slot) == 1 then new_version(base) end
end

local function show(base, slot, engine)
  if call('HSET', base .. 'slots', slot, engine) == 1 then new_version(base) end
end

-- The slot's bits mean nothing any more; it is given again once they are cleared.
local function retire(base, slot)
  if not slot or slot == '' then return end
  call('HDEL', base .. 'slots', slot)
  call('HSET', base .. 'retired', slot, new_version(base))
end
