-- Ends a message: stores the result and deletes the claim. A caller that repeats this because the
-- reply was lost passes the same attempt, and gets the same reply.
-- KEYS: claimed, owners, index, deliveries, ended, receipt, results if they are in the same slot
-- ARGV: claim key, owner, attempt, ttl of ended, token, ttl of the receipt, result, ttl of the
-- results
-- Returns: whether the claim was held
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return redis.call('GET', KEYS[5]) == ARGV[3] and 1 or 0
end
if KEYS[7] then
  redis.call('LPUSH', KEYS[7], ARGV[7])
  if ARGV[8] ~= '0' then
    redis.call('EXPIRE', KEYS[7], ARGV[8])
  end
end
redis.call('SET', KEYS[5], ARGV[3], 'EX', ARGV[4])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
if redis.call('HGET', KEYS[6], 'token') == ARGV[5] then
  redis.call('HSET', KEYS[6], 'ended', 1)
  redis.call('EXPIRE', KEYS[6], ARGV[6])
end
return 1
