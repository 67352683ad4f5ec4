-- Claims messages. Writes come first and deletions last, so that an error in the middle loses no
-- message.
-- KEYS: pending, claimed, owners, index, deliveries
-- ARGV, for each: claim key, member, owner, end of the lease, whether the claim key must be free
-- Returns, for each: how often it was claimed, this time included; 0 if another dispatcher was
-- faster
local counts = {}
for i = 1, #ARGV, 5 do
  local claim, member, owner = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local holder = redis.call('HGET', KEYS[3], claim)
  local count = 0
  if holder == owner then
    -- The reply of the first attempt was lost.
    count = tonumber(redis.call('HGET', KEYS[5], claim)) or 1
  elseif not (holder and ARGV[i + 4] == '1') and redis.call('ZSCORE', KEYS[1], member) then
    redis.call('HSET', KEYS[2], claim, member)
    redis.call('ZADD', KEYS[4], ARGV[i + 3], claim)
    count = redis.call('HINCRBY', KEYS[5], claim, 1)
    redis.call('HSET', KEYS[3], claim, owner)
    redis.call('ZREM', KEYS[1], member)
  end
  counts[#counts + 1] = count
end
return counts
