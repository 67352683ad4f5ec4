"""Draws the first tokens of a run of flood.py: python3 tools/gpu/picture.py RESULTS.json OUT.svg [NAME,NAME…]

One panel for each configuration. Each point is a request: when it was sent, and how long it waited for its first token.
"""

import json
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, GAP, FOOT = 960, 300, 52, 58, 30, 44
TICKS = (0.03, 0.1, 0.3, 1, 3, 10)
TENANTS = (("quiet", "h0"), ("pager", "h1"))
STYLE = """.flood{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
.flood .paper{fill:#fff}.flood text{fill:#1f2328}.flood .title{font-size:15px;font-weight:600}
.flood .tick{fill:#59636e;font-size:11px}.flood .end{text-anchor:end}.flood .middle{text-anchor:middle}
.flood .grid{stroke:#e4e8ec}.flood .goal{stroke:#8c959f;stroke-dasharray:4 5}
.flood .mark{fill:currentColor;fill-opacity:.75}.flood .h0{color:#0072b2}.flood .h1{color:#d55e00}
@media (prefers-color-scheme:dark){.flood .paper{fill:#11161c}.flood text{fill:#e6edf3}
.flood .tick{fill:#9aa5b1}.flood .grid{stroke:#262d36}}"""


def height(seconds):
    """Where a time to first token stands, on a logarithmic scale."""
    low, high = math.log(TICKS[0]), math.log(TICKS[-1] * 1.3)
    share = (math.log(max(seconds, TICKS[0])) - low) / (high - low)
    return HEIGHT - FOOT - min(share, 1) * (HEIGHT - FOOT - TOP)


def panel(run, left, width, seconds):
    """One configuration."""
    middle = left + width / 2
    yield f'<text class="middle" x="{middle:.1f}" y="{TOP - 12}">{run["name"]}, {run["tokens_per_s"]:.0f} tokens/s</text>'
    for tick in TICKS:
        yield f'<path class="grid" d="M{left:.1f} {height(tick):.1f}h{width:.1f}"/>'
    yield f'<path class="goal" d="M{left:.1f} {height(1.5):.1f}h{width:.1f}"/>'
    for tick in range(0, int(seconds) + 1, 10):
        at = left + tick / seconds * width
        yield f'<text class="tick middle" x="{at:.1f}" y="{HEIGHT - FOOT + 16}">{tick} s</text>'
    for tenant, colour in TENANTS:
        for call in run["calls"][tenant]:
            if isinstance(call["first"], float) and call["at"] <= seconds:
                at = left + call["at"] / seconds * width
                yield f'<circle class="mark {colour}" cx="{at:.1f}" cy="{height(call["first"]):.1f}" r="3"/>'


def picture(results, names):
    """The whole picture, or the configurations with these names alone."""
    # Sent directly, no request of the two tenants got a token: there is nothing to draw.
    runs = [run for run in results["runs"] if run["name"] not in ("alone", "direct")]
    runs = [run for run in runs if not names or run["name"] in names]
    seconds = results["options"]["seconds"]
    width = (WIDTH - LEFT - 12 - GAP * (len(runs) - 1)) / len(runs)
    title = "Time to first token while a flood begins, on a GPU"
    yield f'<svg xmlns="http://www.w3.org/2000/svg" class="flood" width="{WIDTH}" height="{HEIGHT}" '
    yield f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}"><style>{STYLE}</style>'
    yield f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/><text class="title" x="12" y="22">{title}</text>'
    for place, (tenant, colour) in enumerate(TENANTS):
        at = WIDTH - 170 + place * 80
        yield f'<circle class="mark {colour}" cx="{at}" cy="18" r="4"/><text x="{at + 9}" y="22">{tenant}</text>'
    for tick in TICKS:
        yield f'<text class="tick end" x="{LEFT - 6}" y="{height(tick) + 4:.1f}">{tick:g} s</text>'
    for place, run in enumerate(runs):
        yield from panel(run, LEFT + place * (width + GAP), width, seconds)
    yield f'<text class="tick" x="{LEFT}" y="{HEIGHT - 8}">{results["engine"]}; the dashed line is 1.5 s</text></svg>'


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    names = [name for text in sys.argv[3:] for name in text.split(",")]
    with open(sys.argv[1], encoding="utf-8") as source, open(sys.argv[2], "w", encoding="utf-8") as target:
        target.write("\n".join(picture(json.load(source), names)) + "\n")
