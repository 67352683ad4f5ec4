-- Gives a claimed message back.
-- KEYS: claimed, owners, index, deliveries, ended, the set to add it to: pending or retries
-- ARGV: claim key, owner, attempt, ttl of ended, member, score, whether it failed
-- Returns: whether the claim was held
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return redis.call('GET', KEYS[5]) == ARGV[3] and 1 or 0
end
redis.call('ZADD', KEYS[6], ARGV[6], ARGV[5])
redis.call('SET', KEYS[5], ARGV[3], 'EX', ARGV[4])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
if ARGV[7] == '0' and redis.call('HINCRBY', KEYS[4], ARGV[1], -1) <= 0 then
  redis.call('HDEL', KEYS[4], ARGV[1])
end
return 1
