-- Deletes a mark if it is that of this generation of the request.
-- KEYS: mark
-- ARGV: token
-- Returns: whether the mark was deleted
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
