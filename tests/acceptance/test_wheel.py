"""What somebody gets who installs Backstay: all that it needs, nothing of the tests, and it runs anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
#: Where the wheel's files come from.
SOURCES: Final = (ROOT / "src", ROOT / "examples")
PACKAGES: Final = ("backstay", "drone_delivery")
#: With exact versions, what the wheel depends on.
LOCK: Final = ROOT / "requirements" / "run.lock"

SECONDS: Final = 100


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(folder))
    done_by([sys.executable, "-m", "pip", "--quiet", "wheel", *options, str(ROOT)], folder)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel and what it depends on, lent from here: no network."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for name in re.findall(r"^([\w.-]+)==", LOCK.read_text("utf-8"), re.MULTILINE):
        lend(name, site)
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", str(folder / "bin" / "python"))
    done_by([*pip, "install", "--no-deps", "--no-index", str(wheel)], folder)
    return folder / "bin"


def lend(name: str, site: Path) -> None:
    """Link an installed distribution into another environment; one of another platform is not there."""
    try:
        lent = distribution(name)
    except PackageNotFoundError:
        return
    for top in {file.parts[0] for file in lent.files or ()} - {"..", "__pycache__"}:
        (site / top).symlink_to(str(lent.locate_file(top)))


def done_by(command: list[str], folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    [about] = {name.partition("/")[0] for name in names if ".dist-info/" in name}

    wanted = {
        path.relative_to(source).as_posix()
        for source in SOURCES
        for package in PACKAGES
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert not {name for name in names if "test_" in name or "conftest" in name}
    assert {name for name in names if not name.startswith(f"{about}/")} == wanted
    assert {f"{about}/licenses/LICENSE", f"{about}/entry_points.txt"} <= names


def test_the_installed_package_is_the_one_of_the_wheel(installed: Path, tmp_path: Path):
    python = str(installed / "python")
    where = "import backstay, drone_delivery; print(backstay.__file__, drone_delivery.__file__)"

    assert done_by([python, "-c", where], tmp_path).count(str(installed.parent)) == len(PACKAGES)
    assert done_by([str(installed / "backstay"), "--version"], tmp_path).startswith("backstay ")


def test_the_first_program_runs_where_only_the_wheel_is(installed: Path, tmp_path: Path):
    program = ROOT / "examples" / "hello" / "hello.py"

    assert "a card to Ada is on its way" in done_by([str(installed / "python"), str(program)], tmp_path)
    assert (tmp_path / "hello.db").exists()


def test_the_demo_runs_outside_the_repository(installed: Path, tmp_path: Path):
    demo = ("-m", "backstay", "demo", "--duration", "2", "--rate", "10", "--port", "0", "--json")

    report = json.loads(done_by([str(installed / "python"), *demo], tmp_path))

    assert report["reconciled"] is True
    assert report["accepted"] == report["processed"] + report["undone"] > 0
