"""The short form of the agreement suite."""

from pathlib import Path

import pytest

from reliability.harness.outcome import Job
from reliability.trials.agreement import trial

pytestmark = [pytest.mark.reliability, pytest.mark.timeout(600)]


def test_every_way_in_and_out_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKINE_NUM_THREADS", "1")  # the trial sets it; this puts it back
    found = trial(Job("agreement", 0, 0, 60, tmp_path))
    assert found.cases == 60
    assert not found.faults, "\n".join(found.failures)
