"""Events into Restate: calls that its server acknowledges once it has them, and makes in an hour.

The generator of our own benches sends them, over as many connections as there are to be in flight.
"""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# Restate is not installed where the types are checked.

from __future__ import annotations

from typing import Any, Final

import aiohttp
import restate
import uvloop

from bench.openloop.generator import generate
from bench.openloop.plan import Load, Phase, request_text
from bench.peers.programs.events import BODY
from bench.peers.programs.measuring import Point, given, print_points
from bench.peers.programs.restate import HOST, register, start_server, start_service

# So that nothing but the ingress is at work.
_LATER: Final = "1h"
_PATH: Final = f"/inbox/take/send?delay={_LATER}"

service = restate.Service("inbox")


@service.handler()
async def take(_context: restate.Context, _event: dict[str, Any]) -> None: ...


app = restate.app(services=[service])


async def main() -> None:
    options = given()
    node, ingress, admin, port = options.ports
    start_server(node=node, ingress=ingress, admin=admin)
    start_service("bench.peers.programs.restate_ingress:app", port)
    async with aiohttp.ClientSession() as client:
        await register(client, admin=admin, service=port)

    async def measure(in_flight: int, seconds: float) -> Point:
        outcome = await generate(
            Load(
                host=HOST,
                port=ingress,
                request=request_text(_PATH, BODY, host=f"{HOST}:{ingress}"),
                phases=[Phase("all", seconds)],
                connections=in_flight,
            )
        )
        [phase] = outcome.phases
        if phase.not_accepted:
            raise RuntimeError(f"not accepted: {phase.refused}, {phase.failed}, {phase.timed_out} timed out")
        return Point(
            in_flight=in_flight,
            tasks=phase.accepted,
            tasks_per_second=round(phase.accepted_per_second, 1),
            p50_ms=phase.latencies.percentile_ms(50),
            p99_ms=phase.latencies.percentile_ms(99),
        )

    await print_points(measure, options)


if __name__ == "__main__":
    uvloop.run(main())
