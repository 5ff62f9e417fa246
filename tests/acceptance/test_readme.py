"""The program in the README is a program: it runs as printed and prints what stands below it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def program_and_output() -> tuple[str, str]:
    """The first block of Python, and the first block of text after it."""
    blocks = _BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    languages = [language for language, _ in blocks]
    program = languages.index("python")
    output = languages.index("text", program)
    return blocks[program][1], blocks[output][1]


def test_the_program_prints_what_stands_below_it(tmp_path: Path):
    program, output = program_and_output()
    (tmp_path / "hello.py").write_text(program, encoding="utf-8")

    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "hello.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == output


def test_the_program_is_the_example():
    program, _ = program_and_output()

    assert program == (ROOT / "examples" / "hello" / "hello.py").read_text(encoding="utf-8")


async def test_the_second_program_does_what_its_comments_say(tmp_path: Path):
    blocks = _BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    [_, program] = [body for language, body in blocks if language == "python"]
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
