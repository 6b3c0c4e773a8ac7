"""Checkpoints are whole or absent, checked, and hold no code."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from error_checks import raises_for
from rankine.core.errors import CheckpointError
from rankine.solvers import checkpoint as module
from rankine.solvers.checkpoint import Checkpoint, Checkpointer, CheckpointFolder, read_checkpoint


def make(step=7):
    arrays = {"state": np.arange(6.0).reshape(3, 2), "clock": np.array([1.0, np.nan])}
    return Checkpoint("one_pass", step, arrays, {"seed": 2**63, "parameters": {"l1": 0.1}})


def test_round_trip(tmp_path):
    folder = CheckpointFolder(tmp_path / "deep" / "run", every=10)
    path = folder.save(make())
    found = read_checkpoint(path)
    assert (found.solver, found.step, found.metadata["seed"]) == ("one_pass", 7, 2**63)
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


def test_the_checkpoint_of_another_run_is_rejected(tmp_path):
    found = make()
    found.require("one_pass", {"seed": 2**63, "parameters": {"l1": 0.1}})
    with pytest.raises(CheckpointError):
        found.require("newton", {})
    with pytest.raises(CheckpointError):
        found.require("one_pass", {"parameters": {"l1": 0.2}})


def test_resuming_without_a_checkpoint_raises_an_error(tmp_path):
    with pytest.raises(CheckpointError):
        CheckpointFolder(tmp_path, every=5).latest()
    with raises_for("every", CheckpointError):
        CheckpointFolder(tmp_path, every=0)


def test_other_files_and_versions_are_rejected(tmp_path, monkeypatch):
    for name, metadata in (("a", None), ("b", {"rankine_checkpoint": "0"})):
        save_file({"state": np.zeros(2)}, tmp_path / name, metadata=metadata)
        with pytest.raises(CheckpointError):
            read_checkpoint(tmp_path / name)
    monkeypatch.setattr(module, "VERSION", "2")
    path = CheckpointFolder(tmp_path, every=1).save(make())
    assert read_checkpoint(path).step == 7
    monkeypatch.undo()
    with pytest.raises(CheckpointError):
        read_checkpoint(path)


def test_long_differences_are_abbreviated(tmp_path):
    for length, told in ((58, "x" * 58), (59, "x" * 56 + "...")):
        kept = Checkpoint("one_pass", 1, {}, {"name": "x" * length})
        with pytest.raises(CheckpointError) as caught:
            kept.require("one_pass", {"name": 1}, tmp_path / "file")
        assert f'name = "{told}' in str(caught.value)
        assert "this run has 1" in str(caught.value)
        assert str(tmp_path / "file") in str(caught.value)
    # What JSON makes of a value is the same value.
    Checkpoint("one_pass", 1, {}, {"sizes": [1, 2]}).require("one_pass", {"sizes": (1, 2)})


class Beside:
    """What watches a run."""

    def __init__(self):
        self.known = None

    def state(self):
        return {"best": np.arange(3.0)}, {"seen": 4}

    def restore(self, arrays, facts):
        self.known = arrays, facts


def test_checkpointer_saves_solver_and_monitor(tmp_path):
    monitor, facts = Beside(), {"seed": 3}
    checkpointer = Checkpointer(
        CheckpointFolder(tmp_path, every=4), facts, resume=False, monitor=monitor
    )
    assert checkpointer.next_due(4) == 8
    checkpointer.save("pairs", 8, {"v": np.ones(2)}, {"trace": []})
    assert checkpointer.restore("pairs") is None
    assert monitor.known is None
    again = Checkpointer(CheckpointFolder(tmp_path, every=4), facts, resume=True, monitor=monitor)
    saved = again.restore("pairs")
    assert (saved.step, saved.metadata["trace"]) == (8, [])
    np.testing.assert_array_equal(saved.arrays["v"], [1.0, 1.0])
    arrays, told = monitor.known
    assert (list(arrays), told) == (["best"], {"seen": 4})
    np.testing.assert_array_equal(arrays["best"], [0.0, 1.0, 2.0])
    other = Checkpointer(
        CheckpointFolder(tmp_path, every=4), {"seed": 4}, resume=True, monitor=monitor
    )
    with pytest.raises(CheckpointError, match=r"seed = 3.*4"):
        other.restore("pairs")


def test_a_folder_keeps_the_given_number_of_checkpoints(tmp_path):
    folder = CheckpointFolder(tmp_path, every=1, keep=3)
    for step in range(5):
        folder.save(make(step))
    assert [read_checkpoint(path).step for path in folder.paths()] == [2, 3, 4]


def test_the_digest_covers_names_types_shapes_and_values():
    header = {"step": "1"}
    arrays = [
        {"a": np.zeros(4)},
        {"b": np.zeros(4)},
        {"a": np.zeros(4, dtype=np.int64)},
        {"a": np.zeros((2, 2))},
        {"a": np.zeros((4, 1))},
        {"a": np.ones(4)},
        {"a": np.zeros(2), "b": np.zeros(2)},
    ]
    digests = {module._digest(header, entry) for entry in arrays}
    digests.add(module._digest({"step": "2"}, arrays[0]))
    assert len(digests) == len(arrays) + 1
