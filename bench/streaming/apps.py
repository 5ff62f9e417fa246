"""The applications that are served: one that only takes events in, one that does five steps for each."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from backstay import App

STREAM: Final = "orders"
GROUP: Final = "bench"
STEPS: Final = 5
SERVICE_SECONDS: Final = 0.05
#: Above all that the benches ask for, so that the services never limit: their latency is all they add.
CONCURRENCY: Final = 10_000

gateway: Final = App("gateway")
gateway.stream(STREAM)


def _five_steps() -> App:
    app = App("workflows")
    service = app.agent("service", concurrency=CONCURRENCY)

    @service.step
    async def call(number: int) -> int:
        await asyncio.sleep(SERVICE_SECONDS)
        return number + 1

    @app.workflow
    async def fulfil(order: dict[str, Any]) -> int:  # noqa: ARG001  Recorded, as an order is.
        number = 0
        for _ in range(STEPS):
            number = await call(number)
        return number

    (
        app.stream(STREAM)
        .source(group=GROUP)
        .map(lambda event: event.body)
        .start(fulfil, id=lambda order: f"order-{order['n']}")
    )
    return app


workflows: Final = _five_steps()
