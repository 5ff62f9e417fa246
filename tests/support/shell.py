"""Commands run in the process of a test, on a store or at a server that has it."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from typing import Any, NamedTuple

import pytest

from backstay.cli import run
from backstay.definitions.registry import Registry
from backstay.messaging.logs import log_of
from backstay.runtime import connected
from backstay.settings import Settings
from tests.support.databases import Database
from tests.support.serving import serving


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def each(self) -> list[Any]:
        """The value on each line."""
        return [json.loads(line) for line in self.lines]


class Keyboard(io.StringIO):
    """A terminal, and what somebody types there."""

    def isatty(self) -> bool:
        return True


class Shell:
    """Runs commands of one noun on a store, or at a server of it that lives as long as the command does."""

    def __init__(
        self,
        noun: str,
        database: Database,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        *,
        remote: bool,
    ) -> None:
        self._noun = noun
        self._database = database
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self._remote = remote

    def __call__(self, *arguments: str, stdin: bytes = b"", typed: str | None = None) -> Said:
        """``typed``: there is a terminal, at which somebody types this."""
        given = io.TextIOWrapper(io.BytesIO(stdin)) if typed is None else Keyboard(typed)
        self._monkeypatch.setattr(sys, "stdin", given)
        if not self._remote:
            code = run([self._noun, *arguments, "--store", self._database.url])
        else:
            code = asyncio.run(self._at_a_server(arguments))
        return Said(code, *self._capsys.readouterr())

    async def _at_a_server(self, arguments: tuple[str, ...]) -> int:
        store, log = self._database.store(), log_of(self.settings)
        await store.open()
        await log.open()
        try:
            async with serving(store, Registry(), log=log) as served:
                return await asyncio.to_thread(run, [self._noun, *arguments, "--url", served.url])
        finally:
            await log.close()
            await store.close()

    @property
    def settings(self) -> Settings:
        return Settings.load({"store": self._database.url}, environment={})

    def work(self, act: Any) -> Any:
        """Do something to the store that no command does."""

        async def working() -> Any:
            async with connected(Registry(), self.settings) as client:
                return await act(client)

        return asyncio.run(working())
