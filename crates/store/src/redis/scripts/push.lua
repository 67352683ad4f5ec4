-- Keeps a result in a list that is in another slot than its queue. The mark stays when the queue's
-- side was not reached, so that whoever does the work again keeps no second result.
-- KEYS: results, mark
-- ARGV: result, life of the results, life of the mark
if not redis.call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[3]) then
  return 0
end
redis.call('LPUSH', KEYS[1], ARGV[1])
if ARGV[2] ~= '0' then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return 1
