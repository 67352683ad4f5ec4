-- Deletes a dead letter and its receipt.
-- KEYS: dead, reasons, members, receipt
-- ARGV: number, token
-- Returns: whether the dead letter was there
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
if redis.call('HGET', KEYS[4], 'token') == ARGV[2] then
  redis.call('DEL', KEYS[4])
end
return 1
