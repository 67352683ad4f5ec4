-- Makes a dead letter pending, under a new token and number.
-- KEYS: dead, reasons, members, sequence, pending, receipt
-- ARGV: number, member before and after its number, deadline, ttl of the sequence, old token, new
--       token, ttl of the receipt
-- Returns: whether the dead letter was there
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
local number = redis.call('INCR', KEYS[4])
redis.call('EXPIRE', KEYS[4], ARGV[5])
local score = tonumber(ARGV[4]) + math.min(number, 2097151) / 2097152
redis.call('ZADD', KEYS[5], string.format('%.17g', score), ARGV[2] .. number .. ARGV[3])
if redis.call('HGET', KEYS[6], 'token') == ARGV[6] then
  redis.call('HSET', KEYS[6], 'token', ARGV[7])
  redis.call('HDEL', KEYS[6], 'ended')
  redis.call('EXPIRE', KEYS[6], ARGV[8])
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return 1
