"""Somebody who asks for pages of the console as a browser without scripts does."""

from __future__ import annotations

import re
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode

from tests.support.serving import Answer, Served

FORM = {"Content_Type": "application/x-www-form-urlencoded"}


class Browser:
    """Keeps cookies and finds proofs, and follows nothing by itself."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.cookies: dict[str, str] = {}

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = await self.served.ask(method, path, **({"Cookie": cookie} if cookie else {}), **options)
        for name, morsel in SimpleCookie(answer.headers.get("Set-Cookie", "")).items():
            self.cookies[name] = morsel.value
        return answer

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, **headers)

    async def proof(self, path: str) -> str:
        found = re.search(r'name="proof" value="([^"]+)"', text_of(await self.get(path)))
        assert found is not None, f"no form at {path}"
        return found[1]

    async def send(self, path: str, *, form_at: str | None = None, **fields: str) -> Answer:
        proof = await self.proof(form_at or path)
        return await self.post(path, proof=proof, **fields)

    async def post(self, path: str, headers: dict[str, str] | None = None, /, **fields: str) -> Answer:
        return await self.ask("POST", path, data=urlencode(fields), **{**FORM, **(headers or {})})

    async def sign_in(self, token: str, **fields: str) -> Answer:
        return await self.send("/sign-in", token=token, **fields)


def text_of(answer: Answer) -> str:
    return answer.body.decode()
