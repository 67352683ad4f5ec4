"""The other side of llm-d-async's Redis queues, written from the description of its format.

It knows nothing of Tidegate and speaks to Redis by itself, so that nothing needs to be installed.

    llm_d_producer.py PORT submit QUEUE RESULTS COUNT [apart]   prints one token for each request
    llm_d_producer.py PORT cancel ID                            wants a request cancelled
    llm_d_producer.py PORT collect RESULTS COUNT                prints results as they come
    llm_d_producer.py PORT work QUEUE COUNT                     answers requests as a worker does
    llm_d_producer.py PORT grab QUEUE COUNT                     claims requests, and dies
"""

import json
import secrets
import socket
import sys
import time

class Redis:
    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def __call__(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        command = b"*%d\r\n" % len(words)
        for word in words:
            command += b"$%d\r\n%s\r\n" % (len(word), word)
        self.stream.write(command)
        self.stream.flush()
        return self.reply()

    def at_once(self, *commands):
        self("MULTI")
        for command in commands:
            self(*command)
        return self("EXEC")

    def reply(self):
        line = self.stream.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        return rest


def submit(redis, queue, results, count, apart=None):
    deadline = int(time.time()) + 3600
    for number in range(int(count)):
        id, token = f"{queue}-{number}", secrets.token_hex(16)
        payload = {"model": "m", "prompt": f"request {number} <&> ☃"}
        internal = {
            "request_token": token,
            "request_queue_name": queue,
            "result_queue_name": results,
        }
        data = {
            "id": id,
            "created": int(time.time()),
            "deadline": deadline + number,
            "payload": payload,
            "metadata": {"userid": f"user-{number % 2}", "traceparent": "00-1-2-01"},
            "headers": {"x-extra": "1"},
            "endpoint": "/v1/completions",
            "model": "m",
        }
        commands = [
            ("DEL", f"request-cancel:{id}"),
            ("SET", f"request-active:{id}", token, "EX", 3600),
        ]
        if apart:
            internal["payload_ref"] = f"request-payload:{id}:{token}"
            commands.append(("SET", internal["payload_ref"], json.dumps(payload), "EX", 4200))
            data["payload"] = None
        member = {"internal": internal, "request_kind": "redis", "data": data}
        redis.at_once(*commands, ("ZADD", queue, deadline + number, json.dumps(member)))
        print(token)


def cancel(redis, id):
    token = redis("GET", f"request-active:{id}")
    if token:
        redis("SET", f"request-cancel:{id}", token, "EX", 604800)
    print("cancelled" if token else "unknown")


def collect(redis, results, count):
    for _ in range(int(count)):
        _, result = redis("BRPOP", results, 60)
        print(result.decode())


def claims(redis, queue, count, lease):
    """Claims requests one by one, as they wait."""
    claimed, owners, index = f"{queue}:claimed", f"{queue}:claim-owners", f"{queue}:claims-idx"
    for _ in range(int(count)):
        (member,) = redis("ZRANGE", queue, 0, 0)
        request = json.loads(member)
        id, token = request["data"]["id"], request["internal"].get("request_token", "")
        claim = f"{id}\0{token}" if token else id
        owner, until = secrets.token_hex(8), time.time() + lease
        redis.at_once(
            ("ZREM", queue, member),
            ("HSET", claimed, claim, member),
            ("HSET", owners, claim, owner),
            ("ZADD", index, until, claim),
        )
        yield (claimed, owners, index), claim, owner, request


def work(redis, queue, count):
    for (claimed, owners, index), claim, owner, request in claims(redis, queue, count, 300):
        data, internal = request["data"], request["internal"]
        payload = data["payload"]
        if "payload_ref" in internal:
            payload = json.loads(redis("GET", internal["payload_ref"]))
        answer = json.dumps({"echo": payload})
        result = {"id": data["id"], "status_code": 200, "payload": answer}
        result["request_token"] = internal.get("request_token", "")
        results = internal.get("result_queue_name") or "result-list"
        assert redis("HGET", owners, claim).decode() == owner, "somebody took the claim away"
        redis.at_once(
            ("LPUSH", results, json.dumps(result)),
            ("HDEL", claimed, claim),
            ("HDEL", owners, claim),
            ("ZREM", index, claim),
        )
        print(data["id"])


def grab(redis, queue, count):
    for _, _, _, request in claims(redis, queue, count, 1):
        print(request["data"]["id"])


if __name__ == "__main__":
    port, verb, *arguments = sys.argv[1:]
    {"submit": submit, "cancel": cancel, "collect": collect, "work": work, "grab": grab}[verb](
        Redis(int(port)), *arguments
    )
