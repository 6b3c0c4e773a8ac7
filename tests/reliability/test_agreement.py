"""The short form of the agreement suite: sixty problems, ten at a time."""

from pathlib import Path

import pytest

from reliability.harness.outcome import Job
from reliability.trials.agreement import trial

pytestmark = pytest.mark.reliability


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_every_way_in_and_out_agrees(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKINE_NUM_THREADS", "1")  # the trial sets it; this puts it back
    found = trial(Job("agreement", 0, first, 10, tmp_path))
    assert found.cases == 10
    assert not found.faults, "\n".join(found.failures)
