-- Takes results away, oldest first. Until the taker says that it has them they are kept aside: it
-- may ask again when the answer was lost, and if it never does they go back after a minute.
-- KEYS: results, aside
-- ARGV: taker, how many
local now = tonumber(redis.call('TIME')[1])
local kept = redis.call('HGETALL', KEYS[2])
for i = 1, #kept, 2 do
  local parcel = cmsgpack.unpack(kept[i + 1])
  if kept[i] == ARGV[1] then
    return parcel.results
  end
  if parcel.at + 60 < now then
    for last = #parcel.results, 1, -1 do
      redis.call('RPUSH', KEYS[1], parcel.results[last])
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
