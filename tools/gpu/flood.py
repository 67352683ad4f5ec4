"""The start of a flood in front of a real transformer, with and without reserved places.

Starts the model server (engine.py) and, for each configuration in turn, `tidegate serve` in front
of it. A flood keeps many requests outstanding in the normal band. A quiet team sends a few in the
same band, and a pager sends some in the critical band. Prints a table of the times to the first
token in seconds, and writes table.md and results.json into a folder after each run. With --toy it
runs a tiny model on a processor, in less than half a minute.
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from client import Call, chat_request, fetch, metrics, send
from programs import Program, end_with_parent
from report import figures, quantile, table
from settings import CONFIGURATIONS, LARGE, QUEUE, arguments
from traffic import Traffic

HERE = Path(__file__).resolve().parent
POLL_S = 0.05


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


async def poll(url, begin, polls):
    """Reads the engine's counters, many times a second."""
    while True:
        seen = await metrics(url)
        running, waiting = seen["vllm:num_requests_running"], seen["vllm:num_requests_waiting"]
        polls.append((round(time.monotonic() - begin, 3), int(running), int(waiting)))
        await asyncio.sleep(POLL_S)


async def measure(options, engine, url, name):
    """One run against this address."""
    seconds = options.alone if name == "alone" else options.seconds
    await fetch(engine, "/reset-peak", "POST")
    traffic, polls = Traffic(options, url, name != "alone"), []
    before, begin = await metrics(engine), time.monotonic()
    poller = asyncio.ensure_future(poll(engine, begin, polls))
    floods = await traffic.run(seconds)
    lasted, after = time.monotonic() - begin, await metrics(engine)
    poller.cancel()
    await traffic.end(floods)
    if poller.done() and not poller.cancelled():
        poller.result()
    await idle(engine)
    result = result_of(options, name, traffic.calls, polls, (before, after, lasted, begin))
    return result | {"engine_after": await metrics(engine)}


def result_of(options, name, calls, polls, window):
    before, after, lasted, begin = window

    def gained(metric):
        return after[metric] - before[metric]

    def seen(call):
        first = call.first - call.sent if call.first else None
        at = round(call.sent - begin, 3)
        complete = call.ended is not None
        return {"at": at, "first": first, "complete": complete, "text": call.text()}

    def team(name):
        return [seen(call) for call in calls if call.team == name]

    teams = {name: team(name) for name in ("pager", "quiet")}
    flood = [call for call in calls if call.team == "flood"]
    statuses = [str(call.status or "waiting") for call in flood]
    lives = [call.ended - call.first for call in flood if call.ended]
    lives = {share: round(quantile(lives, share) or 0.0, 2) for share in (0.1, 0.5, 0.9)}
    polled = max((running + waiting for _, running, waiting in polls), default=0)
    in_flight = int(after["transformer_in_flight_max"])
    return {
        "name": name,
        "seconds": round(lasted, 3),
        "tokens_per_s": round(gained("vllm:generation_tokens_total") / lasted, 1),
        "step_ms": round(1000 * lasted / max(gained("transformer_steps_total"), 1), 2),
        **{name: figures(mine, options.head) for name, mine in teams.items()},
        "flood": {
            "sent": len(flood),
            "statuses": {status: statuses.count(status) for status in sorted(set(statuses))},
            "first_to_last_token_s": lives,
        },
        "tokens_of_clients": sum(call.tokens for call in calls),
        "in_flight_max": in_flight,
        "above_places_max": max(in_flight - options.places, 0),
        "above_places_max_at_polls": max(polled - options.places, 0),
        "calls": teams,
        "polls": polls,
    }


async def check_apis(engine):
    """Whether a prompt gets the same text by each API, streamed and whole."""
    prompt, count = "the tide comes in and goes out", 12
    call = Call("check", chat_request(engine, {}, prompt, count))
    await send(engine, call)
    body = {"prompt": prompt, "max_tokens": count}
    _, whole = await fetch(engine, "/v1/completions", "POST", json.dumps(body).encode())
    body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": count}
    _, chat = await fetch(engine, "/v1/chat/completions", "POST", json.dumps(body).encode())
    whole, chat = json.loads(whole), json.loads(chat)
    texts = {call.text(), whole["choices"][0]["text"], chat["choices"][0]["message"]["content"]}
    return {"texts": sorted(texts), "usage": whole["usage"]}


async def eventually(check, seconds, what):
    end = time.monotonic() + seconds
    while not await check():
        if time.monotonic() > end:
            raise RuntimeError(f"not within {seconds} s: {what}")
        await asyncio.sleep(0.05)


async def idle(engine):
    async def check():
        seen = await metrics(engine)
        return seen["vllm:num_requests_running"] + seen["vllm:num_requests_waiting"] == 0

    await eventually(check, 30, "the engine is idle")


async def run_configuration(options, engine, name):
    if CONFIGURATIONS.get(name) is None:
        return await measure(options, engine, engine, name)
    controller, kind, backend, second = CONFIGURATIONS[name]
    file = options.out / f"{name}.toml"
    backend = f'[[backends]]\nid = "engine"\nurl = "{engine}"\nkind = "{kind}"\n{backend}'
    file.write_text((QUEUE + controller + backend).format(places=options.places))
    command = [options.tidegate, "serve", "--config", file, "--listen", "127.0.0.1:0"]
    gateway = await Program.start(command, options.out / f"{name}.log", 30)
    try:

        async def ready():
            _, backends = await fetch(gateway.url, "/backends")
            [backend] = json.loads(backends)
            return backend["ready"] and (kind == "openai" or backend["last_reading"])

        await eventually(ready, 30, "the gateway is ready")
        if second:
            await measure(options, engine, gateway.url, name)
        return await measure(options, engine, gateway.url, name)
    finally:
        await gateway.stop()


async def check_batching(options):
    """Whether batching changes the tokens, as the engine's own check says."""
    command = [sys.executable, HERE / "engine.py", "--check", "--device", options.device]
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, preexec_fn=end_with_parent
    )
    said, _ = await process.communicate()
    return json.loads(said)


async def run(options):
    options.out.mkdir(parents=True, exist_ok=True)
    results = {"options": {name: getattr(options, name) for name in LARGE}, "runs": []}
    results["failed"] = []
    results["check"] = await check_batching(options)
    say(f"batched as alone and as without a cache: {results['check']}")
    shape = ["--model", options.model, "--places", options.places, "--length", options.length]
    command = [sys.executable, HERE / "engine.py", *shape, "--budget", options.budget]
    command += ["--device", options.device]
    engine = await Program.start(command, options.out / "engine.log", 240)
    results["engine"] = engine.said.strip()
    say(f"{results['engine']}, at {engine.url}")
    try:
        results["apis"] = await check_apis(engine.url)
        for name in ["alone", *options.configurations]:
            try:
                keep(options, results, await run_configuration(options, engine.url, name))
            except RuntimeError as error:
                # The other configurations may still go well.
                results["failed"].append(f"{name}: {error}")
                say(results["failed"][-1])
    finally:
        await engine.stop()
    return results


def keep(options, results, result):
    """Writes what there is, so that a run that is cut off leaves its first results."""
    results["runs"].append(result)
    long = ("calls", "polls", "engine_after")
    say(json.dumps({key: value for key, value in result.items() if key not in long}))
    (options.out / "results.json").write_text(json.dumps(results))
    (options.out / "table.md").write_text(table(results["runs"], options.head) + "\n")


async def bounded(options):
    task = asyncio.ensure_future(asyncio.wait_for(run(options), options.deadline))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


def main():
    options = arguments(__doc__)
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    try:
        results = asyncio.run(bounded(options))
    except (TimeoutError, asyncio.CancelledError):
        sys.exit("cut off; the folder holds what was measured before")
    print(table(results["runs"], options.head))
    sys.exit(1 if results["failed"] else 0)


main()
