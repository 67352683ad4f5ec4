"""A model server with a real transformer: OpenAI's API, continuous batching, vLLM's metrics.

The weights are random, so the text has no meaning; the work is that of a model of this shape. Every
response has exactly as many tokens as its request allows. With numpy it runs the toy model on a
processor, with torch larger ones on a GPU.
"""

import argparse
import asyncio
import json
import os
import sys
import threading
import zlib

# The toy model is too small for several threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from arrays import NumpyArrays, TorchArrays, arrays_of
from batcher import Batcher, Sequence
from check import compare
from transformer import SHAPES, Transformer

MODEL = "transformer"
# Bytes of text that are taken for a token.
TOKEN_BYTES = 4


def tokens_of(text, vocabulary):
    raw = text.encode()
    pieces = (raw[at : at + TOKEN_BYTES] for at in range(0, len(raw), TOKEN_BYTES))
    return [zlib.crc32(piece) % vocabulary for piece in pieces] or [0]


def word_of(token):
    """A word of three syllables, another one for each token."""
    letters = ""
    for _ in range(3):
        token, syllable = divmod(token, 100)
        letters += "bdfgklmnprstvwzhjcxq"[syllable // 5] + "aeiou"[syllable % 5]
    return letters + " "


def prompt_of(path, body):
    if path == "/v1/completions":
        prompt = body.get("prompt", "")
        return prompt if isinstance(prompt, str) else json.dumps(prompt)
    texts = [message.get("content") or "" for message in body.get("messages", [])]
    return "\n".join(text if isinstance(text, str) else json.dumps(text) for text in texts)


class Response:
    """A response that is being generated. Tokens arrive in the thread of the event loop."""

    def __init__(self, path, body, writer):
        self.chat, self.writer = path == "/v1/chat/completions", writer
        self.stream = bool(body.get("stream"))
        options = body.get("stream_options") or {}
        self.usage_wanted = bool(options.get("include_usage"))
        self.words, self.sequence = [], None
        self.ended = asyncio.get_running_loop().create_future()
        kind = "chat.completion" if self.chat else "text_completion"
        self.kind = kind + ".chunk" if self.chat and self.stream else kind

    def head(self):
        if self.stream:
            kind = b"text/event-stream\r\ntransfer-encoding: chunked"
            self.writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\n\r\n")

    def add(self, token, ended):
        word = word_of(token)
        if self.stream:
            if self.chat and not self.words:
                self.event(self.choice({"role": "assistant", "content": ""}, None))
            reason = "length" if ended else None
            self.event(self.choice({"content": word} if self.chat else word, reason))
        self.words.append(word)
        if ended:
            self.end()

    def end(self):
        if self.stream:
            if self.usage_wanted:
                self.event(self.document([], self.usage()))
            self.chunk(b"data: [DONE]\n\n")
            self.writer.write(b"0\r\n\r\n")
        else:
            text = "".join(self.words)
            choice = {"index": 0, "finish_reason": "length"}
            message = {"message": {"role": "assistant", "content": text}}
            choice |= message if self.chat else {"text": text}
            answer(self.writer, 200, self.document([choice], self.usage()))
        if not self.ended.done():
            self.ended.set_result(None)

    def choice(self, piece, reason):
        name = "delta" if self.chat else "text"
        return self.document([{"index": 0, name: piece, "finish_reason": reason}])

    def document(self, choices, usage=None):
        made = {"id": "r", "object": self.kind, "created": 0, "model": MODEL, "choices": choices}
        return made | {"usage": usage} if usage else made

    def usage(self):
        prompt, count = len(self.sequence.prompt), len(self.words)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": count,
            "total_tokens": prompt + count,
        }

    def event(self, value):
        self.chunk(b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n")

    def chunk(self, raw):
        self.writer.write(b"%x\r\n%s\r\n" % (len(raw), raw))


def answer(writer, status, value, kind="application/json"):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}\r\ncontent-type: {kind}\r\n"
    writer.write(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)


async def read_request(reader, begun=b""):
    """Method, path and body, or nothing at the end of the connection."""
    try:
        head = begun + await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ", 2)
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    if "chunked" in headers.get("transfer-encoding", ""):
        body = b""
        while length := int(await reader.readline(), 16):
            body += (await reader.readexactly(length + 2))[:-2]
        await reader.readline()
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return method, path.split("?")[0], body


class Server:
    def __init__(self, batcher, vocabulary):
        self.batcher, self.vocabulary = batcher, vocabulary
        self.loop = asyncio.get_running_loop()

    def run_steps(self):
        while True:
            if self.batcher.await_work(1.0):
                news = self.batcher.step()
                self.loop.call_soon_threadsafe(self.deliver, news)

    @staticmethod
    def deliver(news):
        for sequence, ended in news:
            if not sequence.left:
                sequence.deliver.add(sequence.tokens[len(sequence.deliver.words)], ended)

    async def connection(self, reader, writer):
        begun = b""
        try:
            while request := await read_request(reader, begun):
                begun = await self.respond(request, reader, writer)
                if begun is None:
                    break
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def respond(self, request, reader, writer):
        method, path, body = request
        if method == "POST" and path in ("/v1/chat/completions", "/v1/completions"):
            return await self.generate(path, body, reader, writer)
        if (method, path) == ("POST", "/reset-peak"):
            self.batcher.reset_peak()
            answer(writer, 200, {})
        elif path == "/health":
            answer(writer, 200, b"", "text/plain")
        elif path == "/version":
            answer(writer, 200, {"version": "0.11.0"})
        elif path == "/v1/models":
            model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "tidegate"}
            model["max_model_len"] = self.batcher.length
            answer(writer, 200, {"object": "list", "data": [model]})
        elif path == "/metrics":
            answer(writer, 200, self.metrics().encode(), "text/plain; version=0.0.4")
        else:
            error(writer, 404, f"nothing is at {path[:100]}")
        return b""

    async def generate(self, path, raw, reader, writer):
        """Returns the first bytes of the next request, or nothing if the client has left."""
        try:
            body = json.loads(raw)
            prompt = tokens_of(prompt_of(path, body), self.vocabulary)
            count = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        except (ValueError, TypeError, AttributeError):
            error(writer, 400, "the body is not understood")
            return b""
        if count < 1 or len(prompt) + count > self.batcher.length:
            error(writer, 400, f"prompt and response exceed {self.batcher.length} tokens")
            return b""
        response = Response(path, body, writer)
        response.sequence = Sequence(prompt, count, response)
        response.head()
        self.batcher.submit(response.sequence)
        next_byte = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({response.ended, next_byte}, return_when=asyncio.FIRST_COMPLETED)
        if not response.ended.done() and next_byte.result() == b"":
            self.batcher.leave(response.sequence)
            return None
        await response.ended
        if next_byte.done():
            return next_byte.result() or None
        next_byte.cancel()
        return b""

    def metrics(self):
        seen = self.batcher.counters()
        labels = f'{{engine="0",model_name="{MODEL}"}}'
        metrics = [
            ("vllm:num_requests_running", "gauge", seen["running"]),
            ("vllm:num_requests_waiting", "gauge", seen["waiting"]),
            ("vllm:kv_cache_usage_perc", "gauge", seen["kv_used"]),
            ("vllm:num_preemptions_total", "counter", 0),
            ("vllm:prompt_tokens_total", "counter", seen["prompt_tokens"]),
            ("vllm:generation_tokens_total", "counter", seen["tokens"]),
            ("vllm:request_success_total", "counter", seen["completed"]),
            ("transformer_steps_total", "counter", seen["steps"]),
            ("transformer_in_flight_max", "gauge", seen["in_flight_max"]),
        ]
        lines = [f"# TYPE {name} {kind}\n{name}{labels} {value}" for name, kind, value in metrics]
        blocks = self.batcher.places * self.batcher.length // 16
        cache = f'{{block_size="16",engine="0",num_gpu_blocks="{blocks}"}}'
        lines.append(f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{cache} 1")
        return "\n".join(lines) + "\n"


def error(writer, status, message):
    answer(writer, status, {"error": {"message": message, "type": "invalid_request_error"}})


def warm_up(batcher, vocabulary):
    """Full steps of every kind, so that the first request finds the device ready."""
    length = min(batcher.length // 2, 512)
    for seed in range(batcher.places):
        prompt = [(seed * 7919 + at) % vocabulary for at in range(length)]
        batcher.submit(Sequence(prompt, 8, None))
    while batcher.await_work(0):
        batcher.step()
    batcher.reset_peak()
    batcher.prompt_tokens = batcher.tokens = batcher.completed = batcher.steps = 0


async def serve(options, batcher, vocabulary):
    server = Server(batcher, vocabulary)
    threading.Thread(target=server.run_steps, daemon=True).start()
    listening = await asyncio.start_server(server.connection, "127.0.0.1", options.port)
    address = "http://%s:%d" % listening.sockets[0].getsockname()[:2]
    print(f"listening on {address}", flush=True)
    await asyncio.Event().wait()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=SHAPES, default="toy", help="the shape; default: toy")
    parser.add_argument(
        "--device", default="auto", help="numpy, cuda, cpu (torch); by default cuda where it is"
    )
    parser.add_argument("--places", type=int, default=64, help="sequences at once; default: 64")
    parser.add_argument("--length", type=int, default=2048, help="tokens of a sequence at most")
    parser.add_argument("--budget", type=int, default=2048, help="tokens of a step; default: 2048")
    parser.add_argument("--port", type=int, default=0, help="0, the default, is any free port")
    parser.add_argument(
        "--check", action="store_true", help="compare batched with single generation, and end"
    )
    return parser.parse_args()


def main():
    options = arguments()
    # The thread of the steps and that of the connections take turns.
    sys.setswitchinterval(0.0005)
    arrays = arrays_of(options.device)
    if options.check:
        if not isinstance(arrays, NumpyArrays):
            # Rounding to half precision would change which token is the most likely.
            arrays = TorchArrays(arrays.device, "float32")
        print(json.dumps(compare(Transformer(arrays, SHAPES["toy"]))))
        return
    shape = SHAPES[options.model]
    size = f"{shape.parameters() / 1e9:.3g} billion parameters"
    print(f"{options.model}: {size} on {arrays.name}, {options.places} places", flush=True)
    model = Transformer(arrays, shape)
    batcher = Batcher(model, options.places, options.length, options.budget)
    warm_up(batcher, shape.vocabulary)
    try:
        asyncio.run(serve(options, batcher, shape.vocabulary))
    except KeyboardInterrupt:
        pass
    # The thread of the steps is not waited for.
    os._exit(0)


main()
