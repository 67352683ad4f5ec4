-- Removes a mark if it is still that of this generation of the request.
-- KEYS: mark
-- ARGV: token
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
