-- Ends a message: keeps the result and drops the claim. Says whether the claim was held. Whoever
-- asks again because the answer was lost gives the same try, and hears the same.
-- KEYS: claimed, owners, index, deliveries, ended, receipt, results if they go along
-- ARGV: claim, owner, try, life of ended, token, life of the receipt, result, life of the results
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
