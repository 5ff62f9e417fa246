"""Examples are applications like any other: what they use, everybody may use."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import backstay

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODULES = sorted(EXAMPLES.rglob("*.py"))
OWN = {folder.name for folder in EXAMPLES.iterdir() if folder.is_dir()}
#: What comes with Backstay itself, so that an example needs nothing else.
INSTALLED = {"aiohttp", "msgspec", "rich", "starlette", "uvicorn", "uvloop"}


def imports_of(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "backstay":
            found.update(f"backstay.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_an_example_imports_public_names_and_what_is_installed_with_them(module: Path):
    others = {name for name in imports_of(module) if name.split(".")[0] not in sys.stdlib_module_names}

    public = {f"backstay.{name}" for name in backstay.__all__}

    assert {name for name in others if name.startswith("backstay.")} <= public
    assert {name.split(".")[0] for name in others} <= {"backstay", *INSTALLED, *OWN}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_no_example_imports_another(module: Path):
    example = module.relative_to(EXAMPLES).parts[0]

    assert not {name.split(".")[0] for name in imports_of(module)} & (OWN - {example})
