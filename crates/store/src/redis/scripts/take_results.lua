-- Takes results, oldest first. They stay in the hash of taken results until the consumer
-- acknowledges them: it may repeat the call when the reply was lost. Results that are not
-- acknowledged return to the list after a minute.
-- KEYS: results, taken
-- ARGV: consumer, limit
-- Returns: the results
local now = tonumber(redis.call('TIME')[1])
local kept = redis.call('HGETALL', KEYS[2])
for i = 1, #kept, 2 do
  local batch = cmsgpack.unpack(kept[i + 1])
  if kept[i] == ARGV[1] then
    return batch.results
  end
  if batch.at + 60 < now then
    for last = #batch.results, 1, -1 do
      redis.call('RPUSH', KEYS[1], batch.results[last])
    end
    redis.call('HDEL', KEYS[2], kept[i])
  end
end
local results = {}
for i = 1, tonumber(ARGV[2]) do
  local result = redis.call('LINDEX', KEYS[1], -i)
  if not result then
    break
  end
  results[i] = result
end
if #results > 0 then
  redis.call('HSET', KEYS[2], ARGV[1], cmsgpack.pack({ at = now, results = results }))
  redis.call('LTRIM', KEYS[1], 0, -1 - #results)
end
return results
