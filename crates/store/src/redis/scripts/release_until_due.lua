-- Leaves a released message with its claim, whose lease ends when the message is due. Its holder is
-- nobody, so no verb on the claim succeeds any more.
-- KEYS: owners, index, deliveries
-- ARGV: claim key, owner, attempt, when it is due, whether it failed
-- Returns: whether the claim was held
local holder = redis.call('HGET', KEYS[1], ARGV[1])
if holder ~= ARGV[2] then
  return holder == ARGV[3] and 1 or 0
end
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
if ARGV[5] == '0' and redis.call('HINCRBY', KEYS[3], ARGV[1], -1) <= 0 then
  redis.call('HDEL', KEYS[3], ARGV[1])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
