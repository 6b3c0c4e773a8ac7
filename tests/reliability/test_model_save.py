"""Whatever fails during a save, the file is the old model or the new one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.reliability
SCRIPT = Path(__file__).parent / "saver_faults.py"
KILLS = int(os.environ.get("RANKINE_KILLS", "10"))


def run(mode, folder, count=0):
    if sys.platform == "win32":
        pytest.skip("needs fork and resource limits")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), mode, str(folder), str(count)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_failing_operation_keeps_the_old_model_and_leaves_no_litter(tmp_path):
    outcome = run("fail", tmp_path)
    assert outcome["points"] >= 14
    assert outcome["torn"] == 0
    assert outcome["litter"] == 0
    assert outcome["silent"] == 0


def test_dying_at_every_operation_leaves_a_whole_model(tmp_path):
    outcome = run("crash", tmp_path)
    assert outcome["points"] >= 14
    assert outcome["torn"] == 0


def test_a_full_disk_keeps_the_old_model(tmp_path):
    outcome = run("full", tmp_path)
    assert outcome["points"] >= 100
    assert outcome == {"points": outcome["points"], "torn": 0, "litter": 0, "silent": 0}


def test_kill_during_saves_leaves_a_whole_model(tmp_path):
    outcome = run("kill", tmp_path, KILLS)
    assert outcome["points"] == KILLS
    assert outcome["torn"] == 0
