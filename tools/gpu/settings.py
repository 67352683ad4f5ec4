"""The sizes of a flood on a GPU and of a toy one, the configurations, and the arguments."""

import argparse
from pathlib import Path
from typing import NamedTuple

LARGE = {
    "model": "8b",
    "places": 64,
    "length": 2048,
    "budget": 2048,
    "outstanding": 250,
    "prompts": (128, 1024),
    "responses": (256, 1024),
    "other_prompts": (64, 256),
    "other_responses": (32, 96),
    "pager_rate": 1.0,
    "quiet_rate": 2.0,
    "seconds": 40.0,
    "head": 10.0,
    "alone": 10.0,
    "grace": 5.0,
}
TOY = LARGE | {
    "model": "toy",
    "places": 16,
    "length": 128,
    "budget": 64,
    "outstanding": 48,
    "prompts": (8, 32),
    "responses": (16, 48),
    "other_prompts": (4, 16),
    "other_responses": (4, 12),
    "pager_rate": 4.0,
    "quiet_rate": 8.0,
    "seconds": 2.0,
    "head": 1.0,
    "alone": 1.0,
    "grace": 60.0,
}
HELP = {
    "model": "the shape of the transformer: toy, 1b, 3b or 8b",
    "places": "sequences that the engine runs at once",
    "length": "tokens of a sequence at most",
    "budget": "tokens of a step at most",
    "outstanding": "requests that the flood keeps outstanding",
    "prompts": "tokens of the flood's prompts, as LEAST-MOST",
    "responses": "tokens of the flood's responses",
    "other_prompts": "tokens of the prompts of the pager and of the quiet team",
    "other_responses": "tokens of their responses",
    "pager_rate": "requests of the pager a second",
    "quiet_rate": "requests of the quiet team a second",
    "seconds": "length of each run",
    "head": "the first seconds of a run, which have columns of their own",
    "alone": "length of the run without a flood",
    "grace": "time for the last requests of the pager and the quiet team to end",
}
QUEUE = """[log]
access = false
[queue]
total_capacity = 1000
flow_capacity = 500
queue_ttl = "2m"
flow_by = ["header:x-team"]
cost = "tokens"
[controller]
"""
FIXED = """lower_bound_per_backend = {places}
watermark_per_backend = {places}
upper_bound_per_backend = {places}
"""
RESERVE = "reserve_share_max = 0.1875\nreserve_min = 1\n"
NO_RESERVE = "reserve_share_max = 0\n"
PLACES = "places = {places}\n"


class Configuration(NamedTuple):
    """A gateway in front of the engine."""

    # The lines of [controller].
    controller: str
    # The kind of the backend: no metrics are read of `openai`.
    kind: str = "vllm"
    # Further lines of the backend.
    backend: str = ""
    # Whether the gateway has seen such a flood before.
    second: bool = False


# `auto` has the defaults of the gateway.
CONFIGURATIONS = {
    "direct": None,
    "auto": Configuration(""),
    "auto-second": Configuration("", second=True),
    "places": Configuration("", backend=PLACES),
    "places+reserve": Configuration(RESERVE, backend=PLACES),
    "auto-none-kept": Configuration(NO_RESERVE),
    "auto+reserve": Configuration(RESERVE),
    "fixed": Configuration(FIXED),
    "fixed+reserve": Configuration(FIXED + RESERVE),
    "auto-without-metrics": Configuration("", kind="openai"),
}
DEFAULT = "direct,fixed,fixed+reserve,auto,auto-second,places,places+reserve"


def shown(value):
    return "%d-%d" % value if isinstance(value, tuple) else value


def pair(text):
    least, _, most = text.partition("-")
    return int(least), int(most or least)


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--toy", action="store_true", help="the sizes for a processor")
    program, folder = "target/release/tidegate", "target/flood"
    parser.add_argument("--tidegate", default=program, help=f"the program; {program}")
    parser.add_argument("--out", type=Path, default=folder, help=f"for the results; {folder}")
    parser.add_argument("--device", help="numpy, cuda or cpu; by default cuda, with --toy numpy")
    parser.add_argument("--deadline", type=float, default=540.0, help="seconds for everything; 540")
    parser.add_argument(
        "--configurations", default=DEFAULT, help="of " + ", ".join(CONFIGURATIONS)
    )
    for name, value in LARGE.items():
        kind = pair if isinstance(value, tuple) else type(value)
        text = f"{HELP[name]}; {shown(value)}, with --toy {shown(TOY[name])}"
        parser.add_argument("--" + name.replace("_", "-"), type=kind, help=text)
    options = parser.parse_args()
    for name, value in (TOY if options.toy else LARGE).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.device = options.device or ("numpy" if options.toy else "cuda")
    options.configurations = options.configurations.split(",")
    unknown = [name for name in options.configurations if name not in CONFIGURATIONS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    return options
