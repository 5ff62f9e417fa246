"""``backstay serve drone_delivery.supervisor:app --roles ingest``: hears of what failed, and tells people.

The engine undoes a delivery that failed by itself. What is left for a service of its own is what the engine
cannot know: whom to tell, and how. It is an application beside the other, on the same store; all that they
share is the queue, and what is in a message.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from backstay import App, Message, Permanent
from drone_delivery.addresses import url_of
from drone_delivery.entities import FailedOperation, Notice

#: What is in a message, says ``FailedOperation``.
FAILED_DELIVERIES: Final = "failed-deliveries"
TIMEOUT: Final = "5s"

_log: Final = logging.getLogger(__name__)

app = App("drone-supervisor")
accounts = app.http_agent("account", url_of("account"))


@app.consumer(app.queue(FAILED_DELIVERIES), concurrency=20, delay="5s")
async def attend(message: Message) -> None:
    """Notify the customer, then alert the operator. Done twice, the customer still has one notice."""
    failed = _read(message)
    request = failed.delivery_request
    notice = Notice(
        delivery_id=request.delivery_id,
        owner_id=request.owner_id,
        text="the delivery cannot be made and is called off; its address says why",
    )
    await accounts.put(("api", "notices", request.delivery_id), json=notice, timeout=TIMEOUT)
    _log.error(
        "alert=delivery_failed task_id=%s service=%s: %s",
        request.delivery_id,
        failed.service_name,
        failed.error_message,
    )


def _read(message: Message) -> FailedOperation:
    """Raises Permanent: a message that nobody understands is set aside, which calls a person as well."""
    try:
        return msgspec.convert(message.body, FailedOperation)
    except msgspec.ValidationError as error:
        raise Permanent(f"not a failed operation: {error}") from error
