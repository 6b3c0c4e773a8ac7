"""Systems to compare: models, rankers, runs and arrays of scores."""

import numpy as np
import pytest

import rankine
from rankine.evaluation.systems import is_qrels, is_run, load_systems, name_systems
from rankine.evaluation.trec import Qrels, Run
from rankine.metrics import evaluate
from reference.trec_files import write_qrels, write_run
from unit.evaluation.test_compare import data  # noqa: F401 - a fixture

# ruff: noqa: F811 - tests take fixtures by their name


def test_systems_get_distinct_names(tmp_path, data):
    run = Run(data.qid.astype(str), data.docid, data.X[:, 0], "r")
    given = [tmp_path / "a" / "m", tmp_path / "b" / "m", str(tmp_path / "c" / "m"), run,
             rankine.RankSVM(), [1.0], run]  # fmt: skip
    assert list(name_systems(given)) == ["m", "m (2)", "m (3)", "r", "RankSVM", "system 6", "r (2)"]
    for path in (7, None, tmp_path, tmp_path / "absent"):
        assert not is_run(path)
        assert not is_qrels(path)


def test_ties_keep_row_order_or_fall_by_document_id(data):
    few = data.take_queries(np.arange(3))
    run = Run(few.qid.astype(str), few.docid, np.zeros(few.n_rows), "r")
    (alone,) = load_systems({"flat": np.zeros(few.n_rows)}, few)
    assert [item["doc"] for item in alone.ranking(1, 20)] == [f"d{k}" for k in range(8, 16)]
    assert len(alone.ranking(1, 3)) == 3
    for beside in load_systems({"flat": np.zeros(few.n_rows), "run": run}, few):
        docs = [item["doc"] for item in beside.ranking(1, 20)]
        assert docs == sorted(docs, reverse=True)
    nameless = rankine.Dataset.from_arrays(few.X, few.y, few.qid)
    (rows,) = load_systems({"flat": np.zeros(few.n_rows)}, nameless)
    assert [item["doc"] for item in rows.ranking(2, 2)] == ["row 16", "row 17"]


def test_models_runs_and_rankers_can_be_compared(tmp_path, data):
    model = rankine.LinearModel.from_weights([1.0, 0.0, 0.0])
    model.save(tmp_path / "m.rankine")
    write_run(tmp_path / "r.run", data.qid, data.docid, data.X[:, 1], tag="r")

    class Fitted:
        def predict(self, given):
            return given.X[:, 2]

    found = rankine.compare(
        [tmp_path / "m.rankine", tmp_path / "r.run", Fitted()], data, "map", n_resamples=500
    )
    expected = [evaluate("map", data.y, data.X[:, c], data.qid) for c in range(3)]
    assert [s.mean for s in found.systems] == pytest.approx(expected)
    assert found.systems[0].name == "m.rankine"


def test_runs_against_qrels(tmp_path, data):
    write_qrels(tmp_path / "qrels", data.qid, data.docid, data.y)
    write_run(tmp_path / "a.run", data.qid, data.docid, data.X[:, 0], depth=3)
    write_run(tmp_path / "b.run", data.qid, data.docid, data.X[:, 1])
    found = rankine.compare(
        [tmp_path / "a.run", tmp_path / "b.run"], tmp_path / "qrels", "p@3", n_resamples=500
    )
    assert found.systems[0].mean == pytest.approx(evaluate("p@3", data.y, data.X[:, 0], data.qid))
    assert len(found.changed[0].ranking_a) == 3


def test_a_run_and_a_model_on_the_joined_rows_of_a_fusion(tmp_path):
    """Ids of Parquet files are variable-width text, which NumPy cannot cast."""
    rng = np.random.default_rng(0)
    qid, docid = np.repeat([f"q{k}" for k in range(12)], 6), np.tile(list("abcdef"), 12)
    labels = rng.integers(0, 2, 72).astype(float)
    runs = {name: Run(qid, docid, rng.random(72) + labels, name) for name in ("x", "y")}
    fused = rankine.fuse(runs, Qrels(qid, docid, labels), n_resamples=100)
    fused.data.save(tmp_path / "joined.parquet")
    data = rankine.load(tmp_path / "joined.parquet")
    found = rankine.compare({"run": runs["x"], "model": fused.model}, data, n_resamples=100)
    alone = next(system.mean for system in fused.systems if system.name == "x alone")
    assert found.systems[0].mean == pytest.approx(alone)
