"""A run has one seed, which is printed, however many processes its tests are spread over."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.chaos.matrix import SEED_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
HEADER = re.compile(r"^seed: (\d+) \(again with BACKSTAY_TEST_SEED=\1\)$", re.MULTILINE)

PROBE = """
from tests.chaos.matrix import SEED

def test_one(): print("probed", SEED)
def test_two(): print("probed", SEED)
"""


def test_the_seed_of_a_run_is_printed_and_the_same_in_every_process(tmp_path: Path):
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_probe.py").write_text(PROBE)

    said = subprocess.run(
        [sys.executable, "-m", "pytest", "--numprocesses", "2", "-rP", str(tmp_path)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != SEED_VARIABLE},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    [seed] = HEADER.findall(said)
    assert re.findall(r"probed (\d+)", said) == [seed, seed]
