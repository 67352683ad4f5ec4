"""What a run came to: quantiles of the time to the first token, and the table."""

import math


def quantile(values, share):
    """The value that this share of the values does not exceed; endless if it was never reached."""
    if not values:
        return None
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


def first_tokens(calls, begin, end):
    """Times to first token of the calls that were sent in this period."""
    times = [math.inf if call["first"] is None else call["first"] for call in calls]
    return [time for call, time in zip(calls, times) if begin <= call["at"] < end]


def figures(calls, head):
    """First tokens within the first seconds of a run and after them. A short run has one part."""
    early, late = first_tokens(calls, 0, head), first_tokens(calls, head, math.inf)
    late = late or early
    return {
        "sent": len(calls),
        "answered": sum(call["complete"] for call in calls),
        "first_token_in_time": sum(call["first"] is not None for call in calls),
        "worst_of_first": json_number(quantile(early, 1.0)),
        "p50_after": json_number(quantile(late, 0.5)),
        "p95_after": json_number(quantile(late, 0.95)),
        "worst_after": json_number(quantile(late, 1.0)),
    }


def json_number(value):
    """JSON has no infinity: requests that got no token are `"none"`."""
    if value is None:
        return None
    return "none" if math.isinf(value) else round(value, 4)


def shown(value):
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.2f}"


def row(result):
    pager, quiet = result["pager"], result["quiet"]
    cells = [result["name"], f"{result['tokens_per_s']:.0f}"]
    for team in (pager, quiet):
        cells.append(f"{shown(team['p50_after'])} / {shown(team['p95_after'])}")
        cells.append(shown(team["worst_of_first"]))
    return cells + [str(result["in_flight_max"])]


def table(results, head):
    first, after = f"worst of the first {head:g} s", f"p50 / p95 after {head:g} s"
    names = ["", "tokens/s", f"pager {after}", f"pager {first}", f"quiet {after}"]
    names += [f"quiet {first}", "most in flight"]
    rows = [names, ["---"] + ["---:"] * (len(names) - 1)] + [row(result) for result in results]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)
