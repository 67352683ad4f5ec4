-- Ends a claimed message and keeps it as a dead letter.
-- KEYS: claimed, owners, index, deliveries, ended, receipt, dead, reasons, members, count, results
-- if they are in the same slot
-- ARGV: claim key, owner, attempt, ttl of ended, token, reason, result, ttl of the results
-- Returns: whether the claim was held
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return redis.call('GET', KEYS[5]) == ARGV[3] and 1 or 0
end
-- First, because it may fail: the producer of the message chose the name of the list.
if KEYS[11] then
  redis.call('LPUSH', KEYS[11], ARGV[7])
  if ARGV[8] ~= '0' then
    redis.call('EXPIRE', KEYS[11], ARGV[8])
  end
end
local number = redis.call('INCR', KEYS[10])
redis.call('HSET', KEYS[9], number, redis.call('HGET', KEYS[1], ARGV[1]) or '')
redis.call('HSET', KEYS[8], number, ARGV[6])
redis.call('ZADD', KEYS[7], number, number)
redis.call('SET', KEYS[5], ARGV[3], 'EX', ARGV[4])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
if redis.call('HGET', KEYS[6], 'token') == ARGV[5] then
  redis.call('HSET', KEYS[6], 'ended', 1)
  redis.call('PERSIST', KEYS[6])
end
return 1
