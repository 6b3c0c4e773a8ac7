"""Run every kind of trial with few cases, as a short form of ``make reliability``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reliability.harness.plan import KINDS

pytestmark = [
    pytest.mark.reliability,
    pytest.mark.skipif(os.name != "posix", reason="the harness forks"),
    pytest.mark.timeout(600),
]
TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.counts[0]])
def test_no_fault_in_a_short_run(kind, tmp_path):
    out = tmp_path / "figures.json"
    path = os.pathsep.join([str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    command = [sys.executable, "-m", "reliability", "--size", "short", "--only", kind]
    done = subprocess.run(
        [*command, "--workers", "1", "--out", str(out)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    figures = json.loads(out.read_text())["kinds"][kind]
    assert figures["cases"] >= KINDS[kind].counts[0]
    assert not any(figures["faults"].values())
