-- Holds a claim longer; says whether it was held.
-- KEYS: owners, index
-- ARGV: claim, owner, end of the lease
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
return 1
