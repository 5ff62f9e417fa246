"""The description of this interface: for programs, and as a page for people."""

from __future__ import annotations

from typing import Any

from backstay.api.calls import Call, Html, Nothing
from backstay.api.docs_page import POLICY, page


async def get_document(call: Call[Nothing, Nothing, Nothing]) -> dict[str, Any]:
    return dict(call.service.document)


async def get_page(call: Call[Nothing, Nothing, Nothing]) -> Html:
    return Html(page(call.service.document), headers={"Content-Security-Policy": POLICY})
