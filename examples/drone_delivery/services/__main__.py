"""``python -m drone_delivery.services NAME --port N --database FILE``: one service, until SIGTERM."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

from drone_delivery.services.catalogue import SERVICES
from drone_delivery.services.file import FileUnusable
from drone_delivery.services.server import PortUnusable, Settings, run

PORT_MAX: Final = 65_535


def main() -> int:
    """0 after a stop, 1 when the service cannot start; argparse ends with 2."""
    settings, chance = _read_options()
    try:
        run(settings, chance=chance, now=_now)
    except (PortUnusable, FileUnusable) as error:
        print(f"{settings.service.name} service: {error}", file=sys.stderr)
        return 1
    return 0


def _read_options() -> tuple[Settings, Random]:
    parser = argparse.ArgumentParser(
        prog="python -m drone_delivery.services", description="One of the services behind a delivery."
    )
    parser.add_argument("name", choices=sorted(SERVICES), metavar="NAME", help=", ".join(SERVICES))
    parser.add_argument("--port", type=_port, required=True, metavar="N")
    parser.add_argument(
        "--database", type=Path, required=True, metavar="FILE", help="made when it is not there"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--seed", type=int, help="of the chance that faults are drawn with (default: any)")
    options = parser.parse_args()
    settings = Settings(
        service=SERVICES[options.name], host=options.host, port=options.port, database=options.database
    )
    return settings, Random(options.seed)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give a whole number from 1 to {PORT_MAX}")
    return int(text)


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - the one clock of this process; everybody else is handed it


if __name__ == "__main__":
    sys.exit(main())
