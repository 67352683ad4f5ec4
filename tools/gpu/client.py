"""Streaming requests, each on a connection of its own, and what each of them saw."""

import asyncio
import json
import re
import time
from urllib.parse import urlparse

# An event with a token contains this.
TOKEN = b'"delta":{"content":"'
END = b"data: [DONE]"


class ChunkedBody:
    """Takes the marks of the chunks out of a body, which may stand anywhere in an event."""

    def __init__(self):
        self.held, self.left = b"", 0

    def feed(self, data):
        data, pieces = self.held + data, []
        while data:
            if self.left > 2:
                pieces.append(data[: self.left - 2])
                data, self.left = data[self.left - 2 :], max(self.left - len(data), 2)
            elif self.left:
                data, self.left = data[self.left :], max(self.left - len(data), 0)
            else:
                size, mark, rest = data.partition(b"\r\n")
                if not mark:
                    break
                # The line end after the chunk counts as part of it.
                data, self.left = rest, int(size, 16) + 2
        self.held = data
        return b"".join(pieces)


class Call(asyncio.Protocol):
    """One request: when it was sent, when its first token came, when it ended, and how."""

    def __init__(self, team, request):
        self.team, self.request = team, request
        self.sent = self.first = self.ended = None
        self.status, self.retry_after_s, self.tokens = None, 1.0, 0
        self.head, self.tail, self.body = b"", b"", ChunkedBody()
        # Only the events of short responses are kept.
        self.events = None if team == "flood" else b""
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data):
        if self.status is None:
            self.head += data
            if b"\r\n\r\n" not in self.head:
                return
            head, data = self.head.split(b"\r\n\r\n", 1)
            self.read_head(head.decode("latin-1").lower().split("\r\n"))
        if self.status != 200:
            return self.finish()
        data = self.body.feed(data)
        if self.events is not None:
            self.events += data
        # A mark may lie across two pieces.
        data = self.tail + data
        self.tail = data[-(len(TOKEN) - 1) :]
        found = data.count(TOKEN)
        if found and self.first is None:
            self.first = time.monotonic()
        self.tokens += found
        if END in data:
            self.ended = time.monotonic()
            self.finish()

    def read_head(self, lines):
        self.status = int(lines[0].split()[1])
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            if name == "retry-after":
                self.retry_after_s = float(value)

    def text(self):
        return b"".join(re.findall(TOKEN + rb'([^"]*)"', self.events)).decode()

    def connection_lost(self, _):
        if not self.over.done():
            self.over.set_result(None)

    def finish(self):
        self.transport.close()
        if not self.over.done():
            self.over.set_result(None)


def address_of(url):
    parsed = urlparse(url)
    return parsed.hostname, parsed.port


def chat_request(url, headers, prompt, tokens):
    host, port = address_of(url)
    message = {"role": "user", "content": prompt}
    body = {"model": "transformer", "messages": [message], "max_tokens": tokens, "stream": True}
    body = json.dumps(body).encode()
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        f"host: {host}:{port}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def send(url, call):
    """Sends a request and waits for its end. Cancelled, it closes the connection."""
    loop = asyncio.get_running_loop()
    call.sent = time.monotonic()
    try:
        await loop.create_connection(lambda: call, *address_of(url))
        await call.over
    except OSError:
        pass
    finally:
        if hasattr(call, "transport"):
            call.transport.abort()


async def fetch(url, path, method="GET", body=b""):
    """The status and the body of a response with a length."""
    reader, writer = await asyncio.open_connection(*address_of(url))
    try:
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        return int(head.split()[1]), (await reader.readexactly(length)).decode()
    finally:
        writer.close()


async def metrics(url):
    """The engine's metrics by name."""
    _, page = await fetch(url, "/metrics")
    lines = (line for line in page.splitlines() if not line.startswith("#"))
    pairs = (line.rsplit(" ", 1) for line in lines)
    return {name.split("{")[0]: float(value) for name, value in pairs}
