"""Drives Debian's Chromium over its DevTools protocol, by commands on standard input.

Each command is a line of JSON, and so is each answer:
["open", url], ["eval", expression], ["size", width, height], ["shot", file], ["errors"].
"""

import asyncio
import base64
import json
import sys
import tempfile

import aiohttp

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
    "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb",
]


class Page:
    """One tab: calls of the protocol, and the errors that its console has shown."""

    def __init__(self, socket):
        self.socket = socket
        self.calls = {}
        self.errors = []
        self.session = None
        self.loaded = asyncio.Event()

    async def listen(self):
        async for message in self.socket:
            event = json.loads(message.data)
            if "id" in event:
                self.calls.pop(event["id"]).set_result(event)
            else:
                self.note(event["method"], event["params"])

    def note(self, method, params):
        if method == "Page.loadEventFired":
            self.loaded.set()
        elif method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("text", "exception"))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str([one.get("value") for one in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            entry = params["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    async def call(self, method, **params):
        number = len(self.calls) + 1 + getattr(self, "made", 0)
        self.made = number
        self.calls[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        answer = self.calls[number]
        await self.socket.send_json(message)
        answer = await answer
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    async def do(self, command, *args):
        if command == "open":
            self.loaded.clear()
            await self.call("Page.navigate", url=args[0])
            await asyncio.wait_for(self.loaded.wait(), 30)
        elif command == "eval":
            result = await self.call("Runtime.evaluate", expression=args[0], returnByValue=True,
                                     awaitPromise=True)
            if "exceptionDetails" in result:
                raise RuntimeError(str(result["exceptionDetails"]))
            return result["result"].get("value")
        elif command == "size":
            await self.call("Emulation.setDeviceMetricsOverride", width=args[0], height=args[1],
                            deviceScaleFactor=1, mobile=args[0] < 600)
        elif command == "shot":
            shot = await self.call("Page.captureScreenshot", format="png")
            with open(args[0], "wb") as file:
                file.write(base64.b64decode(shot["data"]))
        elif command == "errors":
            return self.errors
        else:
            raise RuntimeError(f"unknown command {command}")
        return None


async def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = await asyncio.create_subprocess_exec(
            "chromium", *FLAGS, f"--user-data-dir={folder}", "about:blank",
            stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL)
        try:
            while True:
                line = (await browser.stderr.readline()).decode()
                if not line:
                    raise RuntimeError("Chromium has ended")
                if "DevTools listening on " in line:
                    break
            url = line.split("DevTools listening on ")[1].strip()
            drain = asyncio.create_task(browser.stderr.read())
            async with aiohttp.ClientSession() as client, \
                    client.ws_connect(url, max_msg_size=0) as socket:
                await serve(Page(socket))
            drain.cancel()
        finally:
            browser.kill()
            await browser.wait()


async def serve(page):
    listening = asyncio.create_task(page.listen())
    target = await page.call("Target.createTarget", url="about:blank")
    attached = await page.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
    page.session = attached["sessionId"]
    for domain in ("Page", "Runtime", "Log"):
        await page.call(f"{domain}.enable")
    loop = asyncio.get_running_loop()
    print(json.dumps({"ok": "ready"}), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            answer = {"ok": await page.do(*json.loads(line))}
        except (RuntimeError, asyncio.TimeoutError) as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)
    listening.cancel()


asyncio.run(main())
