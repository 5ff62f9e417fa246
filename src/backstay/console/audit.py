"""The audit trail: who did what, to what, when and why."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from backstay.console.visits import Visit, number_in
from backstay.domain.audit import changed
from backstay.store.records import AuditFilter

PAGE_SIZE: Final = 100


async def show(visit: Visit) -> Response:
    target = visit.query.get("target")
    cursor = number_in(visit.query, "cursor")
    page = await visit.client.audit(AuditFilter(target=target, before=cursor, limit=PAGE_SIZE))
    kept = {} if target is None else {"target": target}
    return visit.page(
        "audit.html",
        target=target or "",
        entries=page.items,
        changed=changed,
        next=None if page.next is None else "/audit?" + urlencode({**kept, "cursor": page.next}),
        is_first=cursor is None,
    )
