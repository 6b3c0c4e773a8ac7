"""A set larger than the memory of the workers; RANKINE_LARGE_GB=8 is the size of the promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_workers_of_a_gigabyte_train_on_more_than_they_hold(tmp_path):
    gigabytes = os.environ.get("RANKINE_LARGE_GB", "3")
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.partitions.rounds", "--gigabytes", gigabytes]
    subprocess.run(
        [*command, "--limit", "1GB", "--folder", tmp_path, "--json", result], cwd=ROOT, check=True
    )
    found = json.loads(result.read_text(encoding="utf-8"))
    assert found["bytes"] > 2 * 10**9
    assert found["stop_reason"] == "converged"
    assert found["certificate"]["residual"] <= 1e-3
    assert found["cosine"] > 0.999
    assert found["largest_resident"] < 10**9
    assert found["worker_processes"] == 2
