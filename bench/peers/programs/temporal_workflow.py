"""Five steps for Temporal, in a file of their own: each workflow imports its file anew, in a sandbox."""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# Temporal is not installed where the types are checked.

from __future__ import annotations

from datetime import timedelta

from temporalio import activity, workflow

STEPS = 5
_STEP_TIME = timedelta(seconds=60)


@activity.defn
async def work(number: int) -> int:
    return number + 1


@workflow.defn
class Five:
    @workflow.run
    async def run(self, number: int) -> int:
        for _ in range(STEPS):
            number = await workflow.execute_activity(work, number, start_to_close_timeout=_STEP_TIME)
        return number
