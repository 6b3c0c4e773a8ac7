"""A run that is interrupted and resumed ends with the same bits."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

import rankine
from rankine import Dataset, ElasticRanker
from rankine.core.errors import CheckpointError, DivergenceError
from rankine.solvers.checkpoint import CheckpointFolder


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "lists.txt"
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for q in range(400):
            for _ in range(int(rng.integers(2, 6))):
                x = " ".join(f"{j}:{v:.3f}" for j, v in enumerate(rng.normal(size=6), 1))
                file.write(f"{int(rng.integers(0, 3))} qid:{q} {x}\n")
    return rankine.scan(path, n_features=6, block_rows=150)


class KilledError(Exception):
    """Stands for a kill."""


def stop_at(lists):
    def callback(progress):
        if progress.step >= lists:
            raise KilledError

    return callback


OPTIONS = [
    {"solver": "rda"},
    {"solver": "psgd", "batch_lists": 3},
    {"solver": "rda", "shuffle_buffer": 64},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "batches", "shuffled"])
def test_resume_equals_no_interruption(stream, tmp_path, options):
    def ranker():
        return ElasticRanker(n_passes=2, random_state=3, **options)

    whole = ranker().fit(stream)
    for at in (100, 390, 600):
        folder = tmp_path / f"at-{at}"
        with pytest.raises(KilledError):
            ranker().fit(stream, checkpoint=folder, every=47, callbacks=[stop_at(at)])
        assert 0 < CheckpointFolder(folder, 1).latest().step < 800
        again = ranker().fit(stream, checkpoint=folder, every=47, resume=True)
        np.testing.assert_array_equal(again.coef_, whole.coef_)
        assert again.n_iter_ == whole.n_iter_
        assert again.progressive_ == whole.progressive_
        assert again.training_["rows"] == whole.training_["rows"]
        assert again.to_model().digest == whole.to_model().digest


def test_checkpoints_do_not_change_the_result(stream, tmp_path):
    plain = ElasticRanker(random_state=0).fit(stream)
    kept = ElasticRanker(random_state=0).fit(stream, checkpoint=tmp_path, every=13)
    np.testing.assert_array_equal(plain.coef_, kept.coef_)
    assert CheckpointFolder(tmp_path, 13).latest().step == 400


def test_a_finished_run_resumes_to_itself(stream, tmp_path):
    done = ElasticRanker(random_state=0).fit(stream, checkpoint=tmp_path, every=100)
    again = ElasticRanker().fit(stream, checkpoint=tmp_path, every=100, resume=True)
    np.testing.assert_array_equal(done.coef_, again.coef_)


def test_another_run_is_refused(stream, tmp_path):
    ElasticRanker(random_state=0).fit(stream, checkpoint=tmp_path, every=100)
    with pytest.raises(CheckpointError, match="parameters"):
        ElasticRanker(l1=0.5).fit(stream, checkpoint=tmp_path, resume=True)
    with pytest.raises(CheckpointError, match="parameters"):
        ElasticRanker(n_passes=3).fit(stream, checkpoint=tmp_path, resume=True)
    with pytest.raises(CheckpointError, match="nothing to resume"):
        ElasticRanker().fit(stream, resume=True)


class Exploding:
    """Blocks whose features suddenly become enormous."""

    n_features = 1

    def __iter__(self):
        for k in range(8):
            size = 1.0 if k < 5 else 1e200
            X = np.array([[size], [-size]] * 10)
            yield Dataset.from_arrays(X, [1.0, 0.0] * 10, np.repeat(np.arange(10), 2) + 10 * k)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_divergence_names_the_last_good_checkpoint(tmp_path):
    ranker = ElasticRanker(
        solver="fobos", eta0=1e150, objective="pairwise", scale="none", random_state=0
    )
    with pytest.raises(DivergenceError, match=r"last good checkpoint is .*step-0*50") as caught:
        ranker.fit(Exploding(), checkpoint=tmp_path, every=10)
    assert "Lower eta0" in str(caught.value)
    saved = CheckpointFolder(tmp_path, 10).latest()
    assert np.isfinite(saved.arrays["state"]).all()


SCRIPT = """
import sys, time
import rankine
path, folder = sys.argv[1:]
scan = rankine.scan(path, n_features=6, block_rows=150)
slow = lambda progress: time.sleep(0.05)
ranker = rankine.ElasticRanker(n_passes=20, random_state=3)
ranker.fit(scan, checkpoint=folder, every=29, callbacks=[slow])
"""


@pytest.mark.reliability
def test_a_killed_process_resumes(stream, tmp_path):
    (path,) = stream.sources
    command = [sys.executable, "-c", SCRIPT, path, str(tmp_path)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 60
    while len(CheckpointFolder(tmp_path, 29).paths()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    step = CheckpointFolder(tmp_path, 29).latest().step
    assert 0 < step < 8000
    whole = ElasticRanker(n_passes=20, random_state=3).fit(stream)
    again = ElasticRanker(n_passes=20, random_state=3)
    again.fit(stream, checkpoint=tmp_path, every=29, resume=True)
    np.testing.assert_array_equal(again.coef_, whole.coef_)
