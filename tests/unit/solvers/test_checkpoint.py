"""Checkpoints are whole or absent, checked, and hold no code."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import CheckpointError
from rankine.solvers.checkpoint import Checkpoint, CheckpointFolder, read_checkpoint


def make(step=7):
    arrays = {"state": np.arange(6.0).reshape(3, 2), "clock": np.array([1.0, np.nan])}
    return Checkpoint("one_pass", step, arrays, {"seed": 2**63, "parameters": {"l1": 0.1}})


def test_round_trip(tmp_path):
    folder = CheckpointFolder(tmp_path / "deep" / "run", every=10)
    path = folder.save(make())
    found = read_checkpoint(path)
    assert (found.solver, found.step, found.facts["seed"]) == ("one_pass", 7, 2**63)
    np.testing.assert_array_equal(found.arrays["state"], make().arrays["state"])
    np.testing.assert_array_equal(found.arrays["clock"], [1.0, np.nan])


def test_keeps_the_newest_two(tmp_path):
    folder = CheckpointFolder(tmp_path, every=10)
    for step in (5, 100, 20, 3000):
        folder.save(make(step))
    assert [path.name for path in folder.paths()] == [
        "step-000000000000100.checkpoint",
        "step-000000000003000.checkpoint",
    ]
    assert folder.latest().step == 3000
    assert [folder.next_due(step) for step in (0, 9, 10)] == [10, 10, 20]


def test_every_changed_byte_is_noticed(tmp_path):
    path = CheckpointFolder(tmp_path, every=1).save(make())
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 0x11
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            read_checkpoint(path)
    for length in (0, 1, 8, 100, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            read_checkpoint(path)


def test_refuses_another_run(tmp_path):
    found = make()
    found.require("one_pass", {"seed": 2**63, "parameters": {"l1": 0.1}})
    with pytest.raises(CheckpointError, match="'one_pass', not of 'newton'"):
        found.require("newton", {})
    with pytest.raises(CheckpointError, match="parameters"):
        found.require("one_pass", {"parameters": {"l1": 0.2}})


def test_nothing_to_resume(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint"):
        CheckpointFolder(tmp_path, every=5).latest()
    with pytest.raises(CheckpointError, match="every"):
        CheckpointFolder(tmp_path, every=0)
