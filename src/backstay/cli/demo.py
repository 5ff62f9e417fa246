"""``backstay demo``: the drone delivery application, all of it, in a terminal."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from backstay.cli.access import JsonOption, StoreOption
from backstay.cli.render import complain
from backstay.errors import InvalidRequest
from backstay.runtime import open_store
from backstay.settings import Settings

FAILED: Final = 1
RATE: Final = 40
RATE_MAX: Final = 2_000
SECONDS: Final = 30
SECONDS_MAX: Final = 86_400
PORT: Final = 8080
PORT_MAX: Final = 65_535


RateOption = Annotated[str, typer.Option("--rate", metavar="N", help="Deliveries asked for, per second.")]
DurationOption = Annotated[
    str | None,
    typer.Option(
        "--duration",
        metavar="S",
        help="For how many seconds requests come in.",
        show_default=f"{SECONDS}; with --no-load until Ctrl-C",
    ),
]
KillOption = Annotated[
    str | None,
    typer.Option(
        "--kill-every", metavar="S", help="kill -9 a random process every S seconds.", show_default="never"
    ),
]
PortOption = Annotated[
    str, typer.Option("--port", metavar="P", help="Of the server; the services take the next ones; 0: any.")
]
NoLoadOption = Annotated[
    bool, typer.Option("--no-load", help="Start everything and wait for requests of your own.")
]


def demo(
    *,
    rate: RateOption = str(RATE),
    duration: DurationOption = None,
    store: StoreOption = None,
    kill_every: KillOption = None,
    port: PortOption = str(PORT),
    no_load: NoLoadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the drone delivery application: its services, a server, two workers, and customers.

    Services are slow and fail now and then, and one is down for ten seconds
    each minute. Ctrl-C lets everything that was accepted come to its end.
    Then the services' own books are reconciled: exit code 1 if anything was
    lost, left behind, or done twice. Without --store all files are temporary.
    """
    default_seconds = None if no_load else SECONDS
    seconds = default_seconds if duration is None else _seconds(duration, option="--duration")
    kill_seconds = None if kill_every is None else _seconds(kill_every, option="--kill-every")
    per_second = 0 if no_load else _whole(rate, least=1, most=RATE_MAX, option="--rate")
    port_number = _whole(port, least=0, most=PORT_MAX, option="--port")
    if store is not None:
        open_store(Settings.load({"store": store}))  # Only to hear now whether it names one.
    # It is an application like any other, and imports us.
    from drone_delivery.demo.show import DemoFailed, show  # noqa: PLC0415

    try:
        code = show(
            rate=per_second,
            seconds=seconds,
            kill_every_seconds=kill_seconds,
            port=port_number,
            store=store,
            as_json=as_json,
        )
    except DemoFailed as failure:
        complain(str(failure))
        code = FAILED
    raise typer.Exit(code)


def _whole(written: str, *, least: int, most: int, option: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", written) or not least <= int(written) <= most:
        raise InvalidRequest(f"{option} is {written!r}; give a whole number from {least:,} to {most:,}")
    return int(written)


def _seconds(written: str, *, option: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", written) or not 1 <= float(written) <= SECONDS_MAX:
        raise InvalidRequest(f"{option} is {written!r}; give seconds from 1 to {SECONDS_MAX:,}")
    return float(written)
