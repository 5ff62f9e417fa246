"""Processes that make keys at once end with the same ones."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from backstay.domain.sealing import Belonging
from backstay.vault import KeyFile, Vault

HERE = Belonging("uid1", "action.request.authentication.password")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db.key"


def _seal(path: Path, barrier: object, results: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    results.put(Vault(file=KeyFile(path)).seal("hunter2", HERE))  # type: ignore[attr-defined]


def _add(path: Path, barrier: object, results: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    results.put(KeyFile(path).add().id)  # type: ignore[attr-defined]


@pytest.mark.parametrize("act", [_seal, _add])
def test_of_processes_that_make_keys_at_once_none_loses_what_another_made(path: Path, act: object):
    if act is _add:
        KeyFile(path).made()
    spawn = multiprocessing.get_context("spawn")
    barrier, results = spawn.Barrier(4), spawn.Queue()
    processes = [spawn.Process(target=act, args=(path, barrier, results)) for _ in range(4)]  # type: ignore[arg-type]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()

    if act is _add:
        assert {key.id for key in KeyFile(path).made()} >= set(found)
        assert len(KeyFile(path).keys()) == 5
    else:
        assert len(KeyFile(path).keys()) == 1
        assert [Vault(file=KeyFile(path)).open(row, HERE) for row in found] == ["hunter2"] * 4
