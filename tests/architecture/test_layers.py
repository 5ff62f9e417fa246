"""The shape of the package: imports point down, and nothing imports itself by a detour."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]


def lint(source: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of the project against the package below ``source``."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )


def cycles(graph: grimp.ImportGraph) -> set[tuple[str, ...]]:
    """One chain of imports for each module that leads back to itself. Imports for types count."""
    found = set()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            back = graph.find_shortest_chain(importer=imported, imported=module)
            if back:
                found.add((module, *back))
    return found


def test_no_contract_is_broken():
    result = lint(ROOT / "src")

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("store/base.py", "import backstay.submit", "Imports point down"),
        ("supervisor/__init__.py", "import backstay.scheduler", "Imports point down"),
        ("stranger.py", "", "Imports point down"),
        ("domain/states.py", "import backstay.domain.task", "No package is part of an import cycle"),
        ("domain/task.py", "import asyncio", "The domain does no I/O"),
        ("errors.py", "import sqlite3", "The domain does no I/O"),
    ],
)
def test_a_contract_breaks_when_a_module_reaches_where_it_must_not(
    tmp_path: Path, module: str, line: str, contract: str
):
    shutil.copytree(ROOT / "src", tmp_path / "src")
    with (tmp_path / "src" / "backstay" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")

    result = lint(tmp_path / "src")

    assert result.returncode == 1, result.stdout + result.stderr
    broken = [line for line in result.stdout.splitlines() if line.endswith("BROKEN")]
    assert any(line.startswith(contract) for line in broken), result.stdout


def test_no_module_takes_part_in_an_import_cycle():
    graph = grimp.build_graph("backstay", cache_dir=None, exclude_type_checking_imports=False)

    assert "backstay.domain.states" in graph.modules
    assert cycles(graph) == set()


def test_a_cycle_is_found_however_long_it_is():
    graph = grimp.ImportGraph()
    for importer, imported in (("a", "b"), ("b", "c"), ("c", "a"), ("a", "d")):
        graph.add_import(importer=importer, imported=imported)

    assert {chain[0] for chain in cycles(graph)} == {"a", "b", "c"}
