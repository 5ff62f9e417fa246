"""``python draw.py TARGET TITLE``: draws the course of events on standard input. Runs where matplotlib is."""

# mypy: disable-error-code="import-not-found"
# matplotlib is not installed where the types are checked.

from __future__ import annotations

import json
import sys
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

INCHES = (9, 7)
DOTS_PER_INCH = 110
CAME, DONE, WAITS, SLOWER, SLOW = "#64809c", "#14283c", "#d98c21", "#b8860b", "#d1242f"


def main() -> None:
    target, title = sys.argv[1:]
    course = json.load(sys.stdin)
    figure, (rates, backlog, latencies) = plt.subplots(
        3, 1, sharex=True, figsize=INCHES, layout="constrained"
    )
    figure.suptitle(title)
    _draw(rates, course, "events/s", {"came in": (_rate("came"), CAME), "done": (_rate("done"), DONE)})
    _draw(backlog, course, "events", {"came in and not yet done": (lambda one: one["backlog"], WAITS)})
    _draw(
        latencies,
        course,
        "ms",
        {
            "from arrival to done, p50": (lambda one: one["p50_ms"], DONE),
            "p95": (lambda one: one["p95_ms"], SLOWER),
            "p99": (lambda one: one["p99_ms"], SLOW),
        },
    )
    latencies.set_xlabel("seconds")
    figure.savefig(target, dpi=DOTS_PER_INCH)


def _rate(name: str) -> Any:
    return lambda one: one[name] / (one["end"] - one["begin"])


def _draw(axes: Any, course: Any, unit: str, lines: Any) -> None:
    """Steps, since each figure is that of a bucket."""
    edges = [one["begin"] for one in course["buckets"]] + [course["buckets"][-1]["end"]]
    for label, (figure_of, colour) in lines.items():
        values = [figure_of(one) for one in course["buckets"]]
        axes.stairs(values, edges, baseline=None, label=label, color=colour, linewidth=1.8, zorder=3)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(color="#e4eaf0")
    axes.legend(loc="best", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


if __name__ == "__main__":
    main()
