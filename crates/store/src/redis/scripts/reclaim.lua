-- Makes messages pending whose lease has expired, unless it was renewed or the message was claimed
-- since the caller looked. Deletes a claim without a message.
-- KEYS: pending, claimed, owners, index
-- ARGV: now; for each: claim key, member, score
-- Returns: how many are pending again
local count = 0
for i = 2, #ARGV, 3 do
  local claim, member = ARGV[i], ARGV[i + 1]
  local ends = redis.call('ZSCORE', KEYS[4], claim)
  if ends and tonumber(ends) <= tonumber(ARGV[1]) then
    local kept = redis.call('HGET', KEYS[2], claim)
    if (kept or '') == member then
      if kept then
        redis.call('ZADD', KEYS[1], ARGV[i + 2], member)
        count = count + 1
      end
      redis.call('HDEL', KEYS[3], claim)
      redis.call('HDEL', KEYS[2], claim)
      redis.call('ZREM', KEYS[4], claim)
    end
  end
end
return count
