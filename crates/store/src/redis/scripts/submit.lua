-- Adds a pending message once. The receipt records its digest and its generation.
-- KEYS: sequence, pending, receipt
-- ARGV: digest, token, member before and after its number, deadline, ttl of the sequence, ttl of
-- the receipt, whether the id is active in another queue
-- Returns: 0 accepted, 1 known, 2 conflict; the token of the known message; whether it has ended
local known = redis.call('HMGET', KEYS[3], 'digest', 'token', 'ended')
if known[1] then
  return { known[1] == ARGV[1] and 1 or 2, known[2], known[3] and 1 or 0 }
end
if ARGV[8] == '1' then
  return { 2, '', 0 }
end
local number = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[6])
local score = tonumber(ARGV[5]) + math.min(number, 2097151) / 2097152
redis.call('ZADD', KEYS[2], string.format('%.17g', score), ARGV[3] .. number .. ARGV[4])
redis.call('HSET', KEYS[3], 'digest', ARGV[1], 'token', ARGV[2])
redis.call('EXPIRE', KEYS[3], ARGV[7])
return { 0, ARGV[2], 0 }
