"""What stands for missing values: the rules by their words, and the same in every place."""

from __future__ import annotations

import io
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import rankine
import rankine.distributed
from error_checks import raises_for
from rankine import Dataset, ElasticRanker, LeastSquaresRanker, LinearModel, Scorer, SPDRanker
from rankine.core.errors import ExportError, ParameterError, SchemaError
from rankine.core.specs import MissingValues
from rankine.export.registry import export
from rankine.transforms.apply import score_dataset
from rankine.transforms.missing import fill_missing, find_missing, refuse_missing
from rankine.transforms.scaling import ColumnStatistics, fit_scaling, measure_rows

RULES = ("zero", "mean", "query_min", "indicator")
NAMES = ["price", "age", "stars"]


def lists(n_lists: int = 12, size: int = 6, seed: int = 0) -> Dataset:
    """Lists in which being without a price says something, and no age is ever 0."""
    rng = np.random.default_rng(seed)
    n = n_lists * size
    X = np.column_stack([rng.normal(20, 5, n), rng.uniform(1, 9, n), rng.integers(0, 4, n)])
    y = (X[:, 0] / 5 - X[:, 1] + rng.normal(0, 1, n) > -1).astype(float)
    X[(rng.random(n) < 0.3) & (y == 0), 0] = np.nan
    X[rng.random(n) < 0.2, 1] = np.nan
    X[:size, 1] = np.nan  # a list without any age
    qid = rng.permutation(np.repeat(np.arange(n_lists), size))
    return Dataset.from_arrays(X, y, qid, feature_names=NAMES)


def by_hand(rule: str, data: Dataset) -> np.ndarray:
    """Rows with what stands for missing values, one at a time."""
    X = data.X.copy()
    for i, j in np.argwhere(np.isnan(data.X)):
        column = data.X[:, j]
        if rule == "mean":
            X[i, j] = np.nanmean(column)
        elif rule == "query_min":
            known = column[(data.qid == data.qid[i]) & ~np.isnan(column)]
            X[i, j] = known.min() if len(known) else 0.0
        else:
            X[i, j] = 0.0
    if rule == "indicator":
        return np.hstack([X, np.isnan(data.X[:, :2])])
    return X


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", ["none", "auto", "query"])
def test_training_with_a_rule_equals_training_on_filled_data(rule: str, scale: str) -> None:
    data = lists()
    found = LeastSquaresRanker(missing=rule, scale=scale, l2=0.1, tol=1e-12).fit(data)
    filled = by_hand(rule, data)
    hand = LeastSquaresRanker(l2=0.1, scale="none", tol=1e-12)
    prepared = found.scaling_.apply(data).X
    if scale == "none":
        np.testing.assert_allclose(prepared, filled, rtol=1e-12)
    hand.fit(prepared, data.y, qid=data.qid)
    np.testing.assert_allclose(found.predict(data), hand.predict(prepared), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", ["auto", "query"])
def test_all_ways_to_score_fill_missing_values_alike(rule: str, scale: str) -> None:
    data = lists()
    ranker = LeastSquaresRanker(missing=rule, scale=scale).fit(data)
    scores = ranker.predict(data)
    model = LinearModel.from_bytes(ranker.to_model().to_bytes())
    assert model.missing == ranker.to_model().missing
    np.testing.assert_allclose(score_dataset(model, data), scores, rtol=1e-12)
    order = np.argsort(data.qid, kind="stable")
    X, group = data.X[order], np.bincount(data.qid)
    scorer = Scorer(model)
    np.testing.assert_allclose(scorer.score(X, group=group), scores[order], rtol=1e-9)
    compressed = sparse.csr_matrix(X)
    np.testing.assert_allclose(scorer.score(compressed, group=group), scores[order], rtol=1e-9)
    first = order[: group[0]]
    named = [
        {name: None if np.isnan(x) else x for name, x in zip(NAMES, row, strict=True)}
        for row in data.X[first].tolist()
    ]
    np.testing.assert_allclose(scorer.score(named), scores[first], rtol=1e-9)
    explained = scorer.explain(named, 1)
    assert explained.total == pytest.approx(scores[first][1])
    assert scorer.explain_pair(named, 1, 0).total == pytest.approx(
        scores[first][1] - scores[first][0]
    )
    module: dict[str, object] = {}
    exec(export(model, "python").content.decode(), module)  # noqa: S102 - our own export
    np.testing.assert_allclose(module["scores"](named), scores[first], rtol=1e-9)  # type: ignore[operator]


@pytest.mark.parametrize("rule", ["zero", "mean", "indicator"])
def test_sql_fills_null_as_the_model_does(rule: str) -> None:
    data = lists()
    ranker = LeastSquaresRanker(missing=rule).fit(data)
    text = export(ranker.to_model(), "sql").content.decode()
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE t (price REAL, age REAL, stars REAL)")
    rows = [[None if np.isnan(x) else x for x in row] for row in data.X.tolist()]
    base.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    found = [score for (score,) in base.execute(f"SELECT {text} FROM t")]  # noqa: S608
    np.testing.assert_allclose(found, ranker.predict(data), rtol=1e-9)


def test_exports_that_cannot_fill_missing_values_are_refused() -> None:
    data = lists()
    for rule, target in (("query_min", "sql"), ("mean", "elasticsearch"), ("zero", "vespa")):
        model = LeastSquaresRanker(missing=rule).fit(data).to_model()
        with pytest.raises(ExportError, match=f"missing='{rule}'"):
            export(model, target)


def test_missing_values_are_refused_by_default() -> None:
    data = lists()
    with raises_for("missing", SchemaError):
        LeastSquaresRanker().fit(data)
    ranker = LeastSquaresRanker().fit(np.nan_to_num(data.X), data.y, qid=data.qid)
    for score in (ranker.predict, lambda data: score_dataset(ranker.to_model(), data)):
        with pytest.raises(SchemaError):
            score(data)
    with pytest.raises(SchemaError):
        Scorer(ranker.to_model()).score(data.X)
    with pytest.raises(ParameterError) as caught:
        LeastSquaresRanker(missing="median").fit(data)
    assert caught.value.parameter == "missing"
    with pytest.raises(ParameterError) as caught:
        rankine.AdditiveRanker(missing="mean").fit(data)
    assert caught.value.parameter == "missing"


@pytest.mark.parametrize("rule", RULES)
def test_a_stream_learns_what_memory_learns(rule: str) -> None:
    text = io.StringIO()
    data = lists()
    for i in np.argsort(data.qid, kind="stable"):
        values = " ".join(
            f"{j + 1}:{'NULL' if np.isnan(x) else repr(float(x))}" for j, x in enumerate(data.X[i])
        )
        text.write(f"{data.y[i]:g} qid:{data.qid[i]} {values}\n")
    loaded = rankine.load(io.BytesIO(text.getvalue().encode()))
    assert loaded.read_counts["missing_values"] == np.isnan(data.X).sum()

    class Blocks:
        n_features = 3

        def __iter__(self):
            return loaded.blocks(20)

    settings = {"missing": rule, "l2": 0.1, "n_steps": 2000, "random_state": 0}
    memory = SPDRanker(**settings).fit(loaded)
    stream = SPDRanker(**settings).fit(Blocks())
    assert stream.scaling_.missing.columns == memory.scaling_.missing.columns
    np.testing.assert_allclose(stream.scaling_.factors, memory.scaling_.factors, rtol=1e-12)
    assert np.corrcoef(stream.predict(loaded), memory.predict(loaded))[0, 1] > 0.9


def test_indicators_are_learned_by_partial_fit() -> None:
    data = lists()
    ranker = ElasticRanker(missing="indicator", random_state=0, l1=0.0)
    for block in data.blocks(24):
        ranker.partial_fit(block)
    assert ranker.coef_.shape == (3,)
    assert (
        dict(zip(ranker.scaling_.missing.columns, ranker.scaling_.missing.values, strict=True))[0]
        < 0
    )


@pytest.mark.parametrize("rule", RULES)
def test_frames_columns_and_partitions_may_contain_missing_values(rule: str, tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    import pyarrow.parquet as pq

    shuffled = lists()
    order = np.argsort(shuffled.qid, kind="stable")
    X, y, qid = shuffled.X[order], shuffled.y[order], shuffled.qid[order]
    frame = pd.DataFrame(X, columns=NAMES).astype({"price": "Float64"})
    frame.loc[frame["price"].isna(), "price"] = pd.NA
    table = pa.table(
        {name: pa.array(X[:, j], mask=np.isnan(X[:, j])) for j, name in enumerate(NAMES)}
        | {"label": y, "qid": qid}
    )
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, row_group_size=12)
    parts = rankine.distributed.scan(path, partition_bytes=1000)
    assert parts.n_partitions > 2
    expected = (
        LeastSquaresRanker(missing=rule, l2=0.1).fit(frame, y, qid=qid).predict(rankine.load(path))
    )
    for data in (rankine.load(path), parts):
        ranker = LeastSquaresRanker(missing=rule, l2=0.1).fit(data)
        np.testing.assert_allclose(ranker.predict(rankine.load(path)), expected, rtol=1e-9)


def by_definition(spec: MissingValues, X: np.ndarray, lists: np.ndarray) -> tuple:
    """Rows with what stands for NaN, and what NaN adds to a score, one value at a time."""
    filled, added = X.copy(), np.zeros(len(X))
    known = dict(zip(spec.columns, spec.values, strict=True))
    for i, j in np.argwhere(np.isnan(X)):
        column = X[lists == lists[i], j]
        filled[i, j] = 0.0
        if spec.rule == "mean":
            filled[i, j] = known.get(j, 0.0)
        elif spec.rule == "query_min" and not np.isnan(column).all():
            filled[i, j] = np.nanmin(column)
        elif spec.rule == "indicator":
            added[i] += known.get(j, 0.0)
    return filled, added


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "spec",
    [MissingValues("zero"), MissingValues("query_min"), MissingValues("mean", (1, 2), (5.0, -3.0)),
     MissingValues("indicator", (0, 2), (0.5, 0.25)), MissingValues("mean", (3,), (7.0,))],
)  # fmt: skip
def test_every_rule_equals_its_definition(spec: MissingValues, kind) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        X = rng.integers(-2, 4, (12, 4)).astype(float)
        X[rng.random(X.shape) < 0.3] = np.nan
        lists = rng.integers(0, 3, 12)
        order = np.argsort(lists, kind="stable")
        starts = np.searchsorted(lists[order], np.arange(4))
        expected, added = by_definition(spec, X, lists)
        given = kind(X)
        for rows, chosen in ((order, None), (np.arange(12), order)):
            found, more = fill_missing(spec, given[rows], starts, chosen)
            dense = found.toarray() if kind is sparse.csr_array else found
            np.testing.assert_array_equal(dense, expected[rows])
            if spec.rule == "indicator":
                np.testing.assert_array_equal(more, added[rows])
            else:
                assert more is None
        assert np.isnan(given.data if kind is sparse.csr_array else given).any(), "not in place"


def test_positions_of_missing_values_are_found_in_every_storage() -> None:
    X = np.array([[1.0, 0.0, np.nan], [0.0, np.inf, 2.0], [np.nan, 3.0, np.nan]])
    for stored in (X, sparse.csr_array(X), sparse.csc_array(X)):
        found = find_missing(stored)
        places = sorted(zip(found.rows.tolist(), found.columns.tolist(), strict=True))
        assert places == [(0, 2), (2, 0), (2, 2)]
    for nothing in (X[1:2], X[:0], X[:, :0], sparse.csr_array((2, 2))):
        assert find_missing(nothing) is None
    with pytest.raises(SchemaError, match=r"X\[0, 2\] is missing, one of 3"):
        refuse_missing(X)
    with pytest.raises(SchemaError, match=r"X\[0, 'c'\] is missing") as caught:
        refuse_missing(X[:1], ["a", "b", "c"])
    assert caught.value.column == "c"


def test_means_ignore_missing_values_and_indicators_mark_them() -> None:
    X = np.array([[1.0, 0.0, 0.0, np.nan], [np.nan, 0.0, 4.0, np.nan], [4.0, 0.0, np.nan, np.nan]])
    data = Dataset.from_arrays(X, [0, 1, 2], weight=[1.0, 1.0, 3.0])
    means = fit_scaling("none", data, "mean").missing
    assert dict(zip(means.columns, means.values, strict=True)) == {0: 13 / 4, 2: 4 / 2}
    shares = fit_scaling("none", Dataset.from_arrays(X / 8, [0, 1, 2]), "mean").missing
    assert dict(zip(shares.columns, shares.values, strict=True)) == {0: 2.5 / 8, 2: 2 / 8}
    marks = fit_scaling("none", data, "indicator")
    assert marks.missing.columns == (0, 2, 3)
    assert marks.n_indicators == 3
    np.testing.assert_array_equal(marks.apply(data).X[:, 4:], np.isnan(X[:, [0, 2, 3]]))
    complete = Dataset.from_arrays([[1.0, 2.0, 3.0, 4.0]], [0])
    np.testing.assert_array_equal(marks.apply(complete).X, [[1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0]])
    # A value that was never missing in the fit has no mark.
    later = Dataset.from_arrays([[1.0, np.nan, 0.0, np.nan]], [0])
    np.testing.assert_array_equal(marks.apply(later).X, [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    narrow = replace(marks, missing=MissingValues("indicator", (0,), (0.0,)))
    np.testing.assert_array_equal(narrow.apply(later).X, [[1.0, 0.0, 0.0, 0.0, 0.0]])
    learned = np.array([1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0])
    assert marks.with_learned_missing(learned).missing.values == (-1.0, -2.0, -3.0)
    assert (
        marks.with_learned_missing(learned).unfold(marks.fold(learned)).tolist() == learned.tolist()
    )
    filled = fit_scaling("none", data, "mean")
    assert filled.with_learned_missing(learned[:4]) is filled
    assert filled.unfold(learned[:4]).tolist() == learned[:4].tolist()


@pytest.mark.parametrize("light", [1e-6, 1e-12, 1e-30])
def test_means_are_exact_if_a_heavy_row_has_a_missing_value(light: float, tmp_path) -> None:
    """1 + 1e-30 is 1: what was known weighed nothing, and the mean was no number."""
    X = np.array([[np.nan, 1.0], [4.0, 2.0], [0.0, np.nan], [2.0, 3.0], [np.nan, 3.0]])
    weight = np.array([1.0, light, light, 2 * light, 0.0])
    data = Dataset.from_arrays(X, [0, 1, 2, 0, 1], [1, 1, 1, 2, 2], weight=weight)
    whole = fit_scaling("none", data, "mean").missing
    assert dict(zip(whole.columns, whole.values, strict=True))[0] == pytest.approx(2.0, rel=1e-12)
    thin = replace(data, X=sparse.csr_matrix(X))
    assert fit_scaling("none", thin, "mean").missing == whole
    halves = [data.take_queries([0]), data.take_queries([1])]
    assert measure_rows("none", "mean", ColumnStatistics(lambda: halves, 2)).missing == whole
    data.save(tmp_path / "a.parquet")
    ranker = LeastSquaresRanker(missing="mean", scale="none", l2=0.1)
    parts = ranker.fit(rankine.distributed.scan(tmp_path / "a.parquet")).to_model().missing
    assert parts == ranker.fit(data).to_model().missing


def test_sparse_rows_have_zeros_where_nothing_is_stored() -> None:
    X = sparse.csr_matrix([[np.nan, 5.0], [0.0, np.nan], [3.0, 7.0]])
    spec = MissingValues("query_min")
    filled, _ = fill_missing(spec, X, np.array([0, 3]))
    assert filled.toarray().tolist() == [[0.0, 5.0], [0.0, 5.0], [3.0, 7.0]]
    filled, _ = fill_missing(spec, X, np.array([0, 1, 3]))
    assert filled.toarray().tolist() == [[0.0, 5.0], [0.0, 7.0], [3.0, 7.0]]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", ["auto", "query"])
def test_models_of_raw_logs_keep_the_rule(rule: str, scale: str, tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    n = 60
    price = [None if rng.random() < 0.3 else float(p) for p in rng.lognormal(2, 1, n)]
    brand = rng.choice(["a", "b", "c"], n)
    rows = {"session": np.repeat(np.arange(12), 5), "price": price, "brand": brand}
    rows["clicked"] = [int(p is not None and p < 8) for p in price]
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    columns = {"query": "session", "label": "clicked", "numeric": ["price"], "hash_bits": 6}
    log = rankine.logs.scan(tmp_path / "log.parquet", categorical=["brand"], **columns)
    ranker = LeastSquaresRanker(missing=rule, scale=scale).fit(log)
    model = LinearModel.from_bytes(ranker.to_model().to_bytes())
    scorer = Scorer(model)
    scorer.self_test()
    raw = [{"price": price[i], "brand": str(brand[i])} for i in range(n)]
    expected = ranker.predict(log.load())
    np.testing.assert_allclose(scorer.score(raw, group=[5] * 12), expected, rtol=1e-9)
    np.testing.assert_allclose(score_dataset(model, log.load()), expected, rtol=1e-9)
    with raises_for("missing", SchemaError):
        LeastSquaresRanker(missing="error").fit(log)


def test_the_default_of_raw_logs_is_a_weight_for_being_missing_where_numbers_are_missing():
    pa = pytest.importorskip("pyarrow")

    def log(price):
        rows = {"session": [1, 1, 2, 2], "clicked": [1, 0, 1, 0], "price": price}
        return rankine.logs.scan(
            pa.table(rows), query="session", label="clicked", numeric=["price"]
        )

    for ranker in (LeastSquaresRanker(), rankine.ElasticRanker(random_state=0)):
        spec = ranker.fit(log([1.0, None, 2.0, None])).to_model().missing
        assert (spec.rule, spec.columns) == ("indicator", (0,))
        model = ranker.fit(log([1.0, 3.0, 2.0, 5.0])).to_model()
        assert (model.missing.rule, model.missing.columns) == ("zero", ())
        rows = [{"price": 0.0}, {"price": None}]
        scores = Scorer(model).score(rows)
        assert scores[0] == scores[1]
