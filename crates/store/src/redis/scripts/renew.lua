-- Extends a lease.
-- KEYS: owners, index
-- ARGV: claim key, owner, end of the lease
-- Returns: whether the claim was held
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
return 1
