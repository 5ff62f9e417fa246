"""Five steps on Temporal: its development server, and one process that is worker and client."""

# mypy: disable-error-code="import-not-found"
# Temporal is not installed where the types are checked.

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from pathlib import Path

from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from bench.peers.programs.measuring import Point, given, print_points, with_coroutines
from bench.peers.programs.temporal_workflow import STEPS, Five, work

_QUEUE = "bench"


async def main() -> None:
    options = given()
    server = Path(sys.prefix, "bin", "temporal")
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=str(server)) as environment:
        client = environment.client

        async def one() -> None:
            result = await client.execute_workflow(Five.run, 0, id=uuid.uuid4().hex, task_queue=_QUEUE)
            assert result == STEPS

        async def measure(in_flight: int, seconds: float) -> Point:
            return await with_coroutines(one, in_flight, seconds=seconds)

        async with Worker(client, task_queue=_QUEUE, workflows=[Five], activities=[work]):
            await print_points(measure, options)


if __name__ == "__main__":
    asyncio.run(main())
    # Past the interpreter's own end: threads of the SDK are still at work then, and now and then it crashes.
    os._exit(0)
