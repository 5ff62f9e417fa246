"""The lock files: checked by hash, free of addresses, and of the versions the project asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = [ROOT / "requirements" / name for name in ("run.lock", "dev.lock")]


def pins(lock: Path) -> dict[str, str]:
    """The locked version by name."""
    lines = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in lines}


def asked_for(*, extras: bool) -> list[Requirement]:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = pyproject["project"]
    lines = project["dependencies"] + pyproject["dependency-groups"]["build"]
    if extras:
        lines += [line for extra in project["optional-dependencies"].values() for line in extra]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_no_address(lock: Path):
    text = lock.read_text(encoding="utf-8")

    assert "://" not in text
    assert not re.search(r"^\s*-", text.replace("    --hash=", ""), re.MULTILINE), "a lock holds no options"
    assert not re.search(r"^[^#\n]*@", text, re.MULTILINE), "a lock holds no direct reference"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_line_of_a_lock_is_pinned_and_hashed(lock: Path):
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8").strip())

    assert len(entries) == len(pins(lock)) > 0
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_holds_what_the_project_asks_for(lock: Path):
    locked = pins(lock)
    wanted = asked_for(extras=lock.name == "dev.lock")

    unmet = [
        str(want) for want in wanted if locked.get(canonicalize_name(want.name), "") not in want.specifier
    ]
    assert unmet == [], "run `make lock`"


def test_the_development_lock_contains_the_run_lock_in_the_same_versions():
    run, dev = map(pins, LOCKS)

    assert run.items() <= dev.items()
