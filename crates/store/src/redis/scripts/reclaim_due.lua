-- Makes a released message pending that is due.
-- KEYS: retries, pending
-- ARGV: member, score
-- Returns: whether the message was there
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
