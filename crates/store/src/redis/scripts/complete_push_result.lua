-- Stores a result in a list that is in another slot than its queue. When the caller does not reach
-- the queue afterwards, the mark prevents a second result.
-- KEYS: results, mark
-- ARGV: result, ttl of the results, ttl of the mark
-- Returns: whether the result is new
if not redis.call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[3]) then
  return 0
end
redis.call('LPUSH', KEYS[1], ARGV[1])
if ARGV[2] ~= '0' then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return 1
