"""Frames with categorical columns in fit, predict and evaluation sets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rankine
from rankine.core.errors import DataError, LimitError, ParameterError, SchemaError
from rankine.metrics import evaluate

rng = np.random.default_rng(5)
QID = np.repeat(np.arange(30), 4)
ROWS = pa.table(
    {
        "price": rng.normal(size=120),
        "brand": pa.array(rng.choice(["a", "b", "c"], 120)).dictionary_encode(),
    }
)
Y = rng.integers(0, 2, 120)
LOG = ROWS.append_column("session", pa.array(QID)).append_column("clicked", pa.array(Y))
RANKERS = {
    "linear": rankine.RankSVM(),
    "tables": rankine.AdditiveRanker(max_iter=20, random_state=0),
}
FRAMES = {
    "pandas": ROWS.to_pandas,
    "polars": lambda: pl.from_arrow(ROWS),
    "lazy": lambda: pl.from_arrow(ROWS).lazy(),
    "table": lambda: ROWS,
    "reader": ROWS.to_reader,
}


@pytest.fixture(scope="module", params=list(RANKERS))
def fits(request):
    """A ranker that is fitted to a log, and its scores."""
    ranker = RANKERS[request.param]
    log = rankine.logs.scan(
        LOG, query="session", label="clicked", numeric=["price"], one_hot=["brand"]
    )
    fitted = type(ranker)(**ranker.get_params()).fit(log)
    return ranker, fitted, fitted.predict(ROWS)


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_fitted_as_the_log_with_its_rows(fits, kind):
    ranker, of_log, scores = fits
    fitted = type(ranker)(**ranker.get_params())
    fitted.fit(FRAMES[kind](), Y, qid=QID)
    np.testing.assert_array_equal(fitted.coef_, of_log.coef_)
    np.testing.assert_array_equal(fitted.predict(FRAMES[kind]()), scores)
    value = evaluate(fitted.metric, Y, scores, QID)
    assert fitted.score(FRAMES[kind](), Y, qid=QID) == pytest.approx(value, abs=1e-12)
    rows = rankine.Scorer(fitted.to_model()).score(ROWS.slice(0, 5).to_pylist())
    np.testing.assert_allclose(rows, scores[:5], rtol=1e-12)


def test_evaluation_sets_are_frames_too(fits):
    ranker, _, _ = fits
    values = []
    log = rankine.logs.scan(LOG, query="session", label="clicked", numeric=["price"],
                            one_hot=["brand"])  # fmt: skip
    held_out = rankine.logs.scan(LOG.slice(60), like=log).load()
    for X, y, qid, eval_set, eval_qid in (
        (log, None, None, held_out, None),
        (ROWS, Y, QID, (ROWS.slice(60).to_pandas(), Y[60:]), QID[60:]),
    ):
        fitted = type(ranker)(**ranker.get_params())
        fitted.fit(X, y, qid=qid, eval_set=eval_set, eval_qid=eval_qid)
        values.append([record["value"] for record in fitted.evals_])
    assert values[0] == values[1]


def test_lists_may_be_apart_and_ids_may_be_a_column():
    order = rng.permutation(120)
    table = ROWS.append_column("qid", pa.array([f"q{number}" for number in QID])).take(order)
    apart = rankine.RankSVM(tol=1e-6).fit(table, Y[order])
    together = rankine.RankSVM(tol=1e-6).fit(ROWS, Y, qid=QID)
    np.testing.assert_allclose(apart.predict(ROWS), together.predict(ROWS), atol=1e-3)
    by_group = rankine.RankSVM(tol=1e-6).fit(ROWS, Y, group=[4] * 30)
    np.testing.assert_array_equal(by_group.coef_, together.coef_)


def test_weights_count():
    weight = np.where(QID < 15, 0.0, 1.0)
    weighted = rankine.RankSVM(tol=1e-6).fit(ROWS, Y, qid=QID, sample_weight=weight)
    half = rankine.RankSVM(tol=1e-6).fit(ROWS.slice(60), Y[60:], qid=QID[60:])
    np.testing.assert_allclose(weighted.predict(ROWS), half.predict(ROWS), atol=0.02)


def test_bad_frames_are_named():
    with pytest.raises(SchemaError):
        rankine.RankSVM().fit(ROWS, None, qid=QID)
    with pytest.raises(ParameterError):
        rankine.RankSVM().fit(ROWS, Y[:5], qid=QID)
    many = ROWS.set_column(1, "brand", pa.array([f"{k}" for k in range(120)]).dictionary_encode())
    many = pa.concat_tables([many] * 2).combine_chunks()
    fitted = rankine.RankSVM().fit(ROWS, Y, qid=QID)
    with pytest.raises(DataError):
        fitted.predict(ROWS.drop_columns(["brand"]))
    with pytest.raises(SchemaError):
        rankine.RankSVM().fit(ROWS.to_pandas().astype({"brand": object}), Y, qid=QID)
    ids = pa.array([f"{k}" for k in range(10_001)]).dictionary_encode()
    with pytest.raises((LimitError, SchemaError, ParameterError)) as error:
        rankine.RankSVM().fit(pa.table({"brand": ids}), np.arange(10_001) % 2)
    assert "10,000" in str(error.value) or "10000" in str(error.value)


def test_rows_of_frames_without_categories_stay_features():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    fitted = rankine.RankSVM().fit(frame, [0, 1, 0, 1], qid=[1, 1, 2, 2])
    assert fitted.log_record_ is None
