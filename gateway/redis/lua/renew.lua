-- Renews leases, and tells how much every engine holds. Engines that nobody owns are told of in no match.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    milliseconds, then engine, fence, engine, fence, ...
-- Answers {lost engines, engines that others want, {engine, slot, GPU blocks, host memory blocks, tokens per block,
-- '1' if unjudged, lease, ...}}; '' where unknown.
local base = KEYS[1]
local lost, wanted = {}, {}
for i = 2, #ARGV, 2 do
  local lease = base .. 'o:' .. ARGV[i]
  if call('GET', lease) == ARGV[i + 1] then
    call('PEXPIRE', lease, ARGV[1])
    if call('EXISTS', base .. 'w:' .. ARGV[i]) == 1 then wanted[#wanted + 1] = ARGV[i] end
  else
    lost[#lost + 1] = ARGV[i]
  end
end
local engines = {}
for _, engine in ipairs(call('SMEMBERS', base .. 'engines')) do
  engines[#engines + 1] = engine
  local record = call('HMGET', base .. 'e:' .. engine, 'slot', 'gpu', 'cpu', 'block_size', 'unjudged')
  for _, value in ipairs(record) do
    engines[#engines + 1] = value or ''
  end
  local lease = call('GET', base .. 'o:' .. engine)
  if not lease then hide(base, record[1]) end
  engines[#engines + 1] = lease or ''
end
return {lost, wanted, engines}
