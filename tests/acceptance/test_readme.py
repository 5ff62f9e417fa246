"""What the README shows works: its programs run as printed, its commands print what stands below them."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.pages import Page, Shell
from tests.support.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]

PAGE = Page("../README.md")

#: They would change the machine; tests/acceptance/test_wheel.py installs.
NOT_RUN = (
    "python3 -m venv ~/first/.venv\n. ~/first/.venv/bin/activate\npip install .\ncd ~/first\n",
    "pip install 'backstay[postgres]'\nexport BACKSTAY_STORE=postgresql://shop@db.example/shop\n",
)


def example(name: str) -> str:
    return (ROOT / "examples" / "hello" / name).read_text(encoding="utf-8")


def test_the_program_prints_what_stands_below_it(tmp_path: Path):
    program, _, _ = PAGE.blocks("python")
    [output] = PAGE.blocks("text")
    (tmp_path / "shop.py").write_text(program, encoding="utf-8")

    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "shop.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == output


def test_the_first_two_programs_are_the_examples_and_one_of_them_has_twenty_lines():
    shop, hello, _ = PAGE.blocks("python")

    assert (shop, hello) == (example("shop.py"), example("hello.py"))
    assert len([line for line in hello.splitlines() if line]) == 20


def test_the_first_workflow_of_ones_own_does_what_the_commands_show(tmp_path: Path):
    (tmp_path / "hello.py").write_text(example("hello.py"), encoding="utf-8")
    [port] = free_ports(1)

    with Shell(tmp_path, ports={"8080": port}, BACKSTAY_PORT=str(port)) as shell:
        shell.follow(PAGE)


def test_only_installations_are_left_out():
    assert tuple(PAGE.blocks("sh")) == NOT_RUN


async def test_the_program_of_what_a_workflow_may_do_does_what_its_comments_say(tmp_path: Path):
    _, _, program = PAGE.blocks("python")
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(program, "README.md", "exec"), names)
    app, order = names["app"], names["order"]

    async with app.run(store=f"sqlite:///{tmp_path / 'readme.db'}"):
        handle = await app.submit(order, ["drone", "kite"], id="order-1")
        await app.signal("order-1", "approval", True)
        ended_at = await handle.result(timeout=30)
        steps = await app.steps("order-1")

    assert isinstance(ended_at, datetime)
    assert [step.key for step in steps] == ["reserve:1", "reserve:2"]
