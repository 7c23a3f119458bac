-- Renews leases, and tells how much every engine holds. Engines that nobody owns are told of in no match.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    milliseconds, then engine, fence|slot|seq, engine, fence|slot|seq, ...; no slot if that is about to change
-- Answers {lost engines, engines that others want, {engine, slot, GPU blocks, host memory blocks, tokens per block,
-- '1' if unjudged, '1' if it looks ahead, lease, ...}}; '' where unknown.
local base = KEYS[1]

-- Whether the engine is as its owner left it, or further. A server that came back as it was some time ago has it as it
-- was then, and leases too.
local function as_left(engine, slot, seq)
  if slot == '' then return true end
  local known = call('HMGET', base .. 'e:' .. engine, 'slot', 'seq')
  if known[1] == slot and (seq == '' or (tonumber(known[2] or '') or -1) >= tonumber(seq)) then return true end
  hide(base, known[1])
  return false
end

local lost, wanted = {}, {}
for i = 2, #ARGV, 2 do
  local lease = base .. 'o:' .. ARGV[i]
  local fence, slot, seq = string.match(ARGV[i + 1], '^(.*)|(.*)|(.*)$')
  if call('GET', lease) == fence and as_left(ARGV[i], slot, seq) then
    -- Not PEXPIRE, which a server without memory takes although it takes no news of an engine.
    call('SET', lease, fence, 'PX', ARGV[1])
    if call('EXISTS', base .. 'w:' .. ARGV[i]) == 1 then wanted[#wanted + 1] = ARGV[i] end
  else
    lost[#lost + 1] = ARGV[i]
  end
end
local engines = {}
for _, engine in ipairs(call('SMEMBERS', base .. 'engines')) do
  engines[#engines + 1] = engine
  local record = call('HMGET', base .. 'e:' .. engine, 'slot', 'gpu', 'cpu', 'block_size', 'unjudged',
    'looks_ahead')
  for _, value in ipairs(record) do
    engines[#engines + 1] = value or ''
  end
  local lease = call('GET', base .. 'o:' .. engine)
  if not lease then hide(base, record[1]) end
  engines[#engines + 1] = lease or ''
end
return {lost, wanted, engines}
