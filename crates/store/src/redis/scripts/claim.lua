-- Takes messages. What is written comes first and what is removed last: a script that fails half
-- way loses nothing. Says of each how often it was taken, this time included; nothing, if another
-- was quicker.
-- KEYS: pending, claimed, owners, index, deliveries
-- ARGV, for each: claim, member, owner, end of the lease, whether it must not be held already
local answers = {}
for i = 1, #ARGV, 5 do
  local claim, member, owner = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local holder = redis.call('HGET', KEYS[3], claim)
  local count = 0
  if holder == owner then
    -- We took it, and the answer was lost.
    count = tonumber(redis.call('HGET', KEYS[5], claim)) or 1
  elseif not (holder and ARGV[i + 4] == '1') and redis.call('ZSCORE', KEYS[1], member) then
    redis.call('HSET', KEYS[2], claim, member)
    redis.call('ZADD', KEYS[4], ARGV[i + 3], claim)
    count = redis.call('HINCRBY', KEYS[5], claim, 1)
    redis.call('HSET', KEYS[3], claim, owner)
    redis.call('ZREM', KEYS[1], member)
  end
  answers[#answers + 1] = count
end
return answers
