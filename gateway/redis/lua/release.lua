-- Gives an engine's lease back; what is known of the engine waits for its next owner, or goes.
--
-- KEYS[1] what all keys of the model begin with
-- ARGV    engine, fence, 'keep' or 'forget'
-- Answers 1, or 0: the lease is another's.
local base, engine = KEYS[1], ARGV[1]
local lease, record = base .. 'o:' .. engine, base .. 'e:' .. engine
if call('GET', lease) ~= ARGV[2] then
  return 0
end
call('DEL', lease)
local slot = call('HGET', record, 'slot')
if ARGV[3] == 'forget' then
  retire(base, slot)
  call('UNLINK', base .. 'n:' .. engine, base .. 'c:' .. engine, record)
  call('SREM', base .. 'engines', engine)
else
  hide(base, slot)
end
return 1
