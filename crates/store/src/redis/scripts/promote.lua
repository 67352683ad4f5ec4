-- Lets a message wait again that was put back for later; says whether we were the one.
-- KEYS: retries, pending
-- ARGV: member, score
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
