"""The options of ``backstay jobs create``: what each stands for in a document."""

from __future__ import annotations

from typing import Annotated

import typer

from backstay.domain.jobs.records import CatchUp, Overlap
from backstay.jobroom import SKUS

FileOption = Annotated[
    str | None,
    typer.Option("--file", metavar="F", help="The whole document; - reads standard input."),
]
CallOption = Annotated[
    str | None, typer.Option("--call", metavar="URI", help="The job requests this address.")
]
MethodOption = Annotated[
    str | None, typer.Option("--method", metavar="M", help="GET, or POST if there is a body.")
]
BodyOption = Annotated[str | None, typer.Option("--body", metavar="TEXT", help="Sent with --call.")]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME:VALUE", help="Sent with --call; may be repeated."),
]
WorkflowOption = Annotated[
    str | None, typer.Option("--workflow", metavar="W", help="The job starts a task of this workflow.")
]
InputOption = Annotated[str | None, typer.Option("--input", metavar="JSON", help="The input of that task.")]
EveryOption = Annotated[
    str | None,
    typer.Option("--every", metavar="TIME", help="As in 5m, 2h, 1d; or minute, hour, day, week, …"),
]
StartOption = Annotated[
    str | None,
    typer.Option("--at", metavar="WHEN", help="The start: an instant, or a time from now such as 5m."),
]
CountOption = Annotated[int | None, typer.Option("--count", metavar="N", help="So many times.")]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Not later than that.")]
CatchUpOption = Annotated[
    CatchUp | None,
    typer.Option("--catch-up", help="Which of the times start that passed while nobody could."),
]
OverlapOption = Annotated[
    Overlap | None,
    typer.Option("--overlap", help="What becomes of a time that comes while the last run is at work."),
]
DisabledOption = Annotated[bool, typer.Option("--disabled", help="It does not run until `enable`.")]
SkuOption = Annotated[
    str | None, typer.Option("--sku", metavar="S", help=f"Of a collection: {', '.join(SKUS)}.")
]
LocationOption = Annotated[
    str | None, typer.Option("--location", metavar="L", help="Of a collection; nothing depends on it.")
]
