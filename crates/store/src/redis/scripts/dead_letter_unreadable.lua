-- Makes an unreadable message a dead letter.
-- KEYS: the set with the message, dead, reasons, members, count
-- ARGV: member, reason
-- Returns: whether the message was there
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
local number = redis.call('INCR', KEYS[5])
redis.call('HSET', KEYS[4], number, ARGV[1])
redis.call('HSET', KEYS[3], number, ARGV[2])
redis.call('ZADD', KEYS[2], number, number)
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
