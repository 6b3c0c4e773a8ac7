"""Peers: absent ones and those that fail are named, pairs and parts are what they should be."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from benchmarks.instead import comparison, presentation
from benchmarks.instead.data_files import split, write_parts
from benchmarks.instead.learners import group_sizes, sampled_pairs
from benchmarks.instead.worker import forked, read

SIZES = {"cpu_seconds": 1.0, "peak_mb": 2.0, "model_bytes": 3.0, "us_per_candidate": 4.0}


def rows(n_queries=10, seed=0):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 6)
    return rng.normal(size=(len(qid), 3)) * [1, 10, 0], rng.integers(0, 3, len(qid)) * 1.0, qid


def test_pairs_are_of_one_query_and_of_different_labels():
    _, y, qid = rows()
    high, low = sampled_pairs(y, qid, 500, seed=1)
    assert len(high) == 500
    assert (qid[high] == qid[low]).all()
    assert (y[high] > y[low]).all()


def test_group_sizes_follow_the_rows():
    assert group_sizes(np.array([7, 7, 2, 9, 9, 9])).tolist() == [2, 1, 3]


def test_parts_hold_every_query_once_and_are_scaled_by_the_training_rows(tmp_path):
    X, y, qid = rows()
    parts = split(X, y, qid)
    assert np.concatenate([part[2] for part in parts]).tolist() == qid.tolist()
    assert not set(parts[0][2]) & set(parts[1][2])
    sizes = write_parts(tmp_path, parts)
    assert sizes["train"] == {"rows": 36, "queries": 6}
    scaled, labels, _ = read(tmp_path, "train")
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 0], rtol=1e-6)
    np.testing.assert_array_equal(labels, parts[0][1])


def compared(monkeypatch, tmp_path, run):
    monkeypatch.setattr(comparison, "versions", lambda: {"xgboost": "1", "lightgbm": None})
    monkeypatch.setattr(comparison, "run", run)
    grids = {
        "rankine RankSVM": [{"l2": 1.0}, {"l2": 2.0}],
        "XGBoost trees": [{"eta": 0.1}],
        "LightGBM lambdarank": [{}],
    }
    return comparison.compare(
        lambda folder: write_parts(folder, split(*rows())),
        grids,
        seeds=[1],
        repetitions=2,
        limit=1,
        most=2,
    )


def test_absent_and_failing_peers_are_named_and_validation_chooses(monkeypatch, tmp_path):
    def run(folder, name, settings, limit, first):
        if name == "XGBoost trees":
            return [{"reason": "stopped after 1 s"}]
        for number, setting in enumerate(settings, first):
            for part in ("vali", "test"):
                _, y, _ = read(folder, part)
                np.save(folder / f"{number}.{part}.npy", y if setting["l2"] == 2.0 else -y)
        return [{"id": str(first + k), **SIZES} for k in range(len(settings))]

    found = compared(monkeypatch, tmp_path, run)
    assert found["refused"] == {"XGBoost trees": "stopped after 1 s"}
    assert "LightGBM lambdarank" in found["absent"][0]
    ours = found["learners"]["rankine RankSVM"]
    assert ours["setting"] == {"l2": 2.0}
    assert ours["test"] == 1.0
    assert ours["cpu_seconds"]["n"] == 2
    assert "stopped after 1 s" in presentation.markdown(found, "Rows.")


@pytest.mark.parametrize(
    ("gap", "said"), [(0.1, "Trees win"), (-0.1, "Trees lose"), (0.01, "told apart")]
)
def test_the_words_say_who_wins_and_by_how_much(gap, said):
    figures = {key: {"median": value} for key, value in SIZES.items()}
    learners = {
        "rankine SPD": {
            **figures,
            "validation": 0.5,
            "against_ours": {"mean": 0.0, "standard_error": 0.0},
        },
        "XGBoost trees": {
            **figures,
            "validation": 0.6,
            "against_ours": {"mean": gap, "standard_error": 0.02},
        },
    }
    text = presentation.verdict(learners, "rankine SPD")
    assert said in text
    assert f"{gap:+.4f}" in text


def test_a_worker_that_fails_says_why(tmp_path):
    with pytest.raises(comparison.Refusal, match=r"failed: .*train\.npz"):
        comparison.run(tmp_path, "rankine SPD", [{"seed": 1}], 60, 0)


def test_a_setting_that_fails_is_told_apart_from_one_that_works(tmp_path):
    write_parts(tmp_path, split(*rows()))
    settings = [{"n_steps": 10, "seed": 1}, {"n_steps": -3, "seed": 1}]
    works, fails = comparison.run(tmp_path, "rankine SPD", settings, 60, 0)
    assert works["id"] == "run0"
    assert works["cpu_seconds"] >= 0
    assert works["model_bytes"] > 0
    assert "n_steps" in fails["reason"]


def test_a_child_is_stopped_at_its_limit():
    assert forked(lambda: None, 60) is None
    assert forked(lambda: 1 / 0, 60) == "failed"
    assert forked(lambda: time.sleep(60), 0.01) == "stopped after 0.1 s"
    assert forked(lambda: os.kill(os.getpid(), 9), 60) == "ended by signal 9"
