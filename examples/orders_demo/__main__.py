"""``python -m examples.orders_demo``: watch an order workflow survive kill -9."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from rich.console import Console

from examples.orders_demo.board import Board
from examples.orders_demo.child import Child, ChildFailed
from examples.orders_demo.demo import Demo, Plan, Unfinished
from examples.orders_demo.reconcile import reconcile
from examples.orders_demo.screen import screen
from examples.orders_demo.services import Services, read_log
from examples.orders_demo.shop import shop


def main() -> int:
    """0 when everything reconciles."""
    plan = read_plan()
    with tempfile.TemporaryDirectory(prefix="backstay-demo-") as folder:
        try:
            return asyncio.run(show(plan, Path(folder)))
        except KeyboardInterrupt:
            return 130


def read_plan() -> Plan:
    parser = argparse.ArgumentParser(prog="orders_demo", description="An order workflow survives kill -9.")
    parser.add_argument(
        "--seconds", type=between(1, 3600), default=8, help="how long orders come in (default: 8)"
    )
    parser.add_argument(
        "--rate", type=between(20, 1000), default=160, help="orders per second (default: 160)"
    )
    parser.add_argument("--kills", type=between(0, 10), default=3, help="how often it is killed (default: 3)")
    options = parser.parse_args()
    return Plan(seconds=options.seconds, rate=options.rate, kills=options.kills)


def between(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
        return int(text)

    return number


async def show(plan: Plan, folder: Path) -> int:
    """Run the demo in ``folder`` and print what the services' own log says."""
    console = Console()
    board = Board(time.monotonic)
    store, log = f"sqlite:///{folder / 'orders.db'}", folder / "services.db"
    child = Child(store, log, output=folder / "child.log")
    try:
        with Services(log, Random()) as services:
            async with shop(services).client(store=store) as client:
                with screen(board, console) as shown:
                    demo = Demo(
                        plan, client=client, child=child, board=board, screen=shown, log=log, chance=Random()
                    )
                    await demo.run()
    except* (ChildFailed, Unfinished) as problems:
        for problem in problems.exceptions:
            print(f"the demo failed: {problem}", file=sys.stderr)
    finally:
        child.stop()
    report = reconcile(board.accepted, board.states, read_log(log))
    console.print(
        f"\n{plan.kills} kills; {report.repeated} calls came twice, each known by its key\n",
        highlight=False,
    )
    for line in report.lines():
        console.print(line, highlight=False)
    return 0 if report.reconciled else 1


if __name__ == "__main__":
    sys.exit(main())
