"""Margins, tables of gaps, and rows of a domination task."""

import numpy as np
import pytest

from rankine.core.errors import NoPairsError, ParameterError, SchemaError
from rankine.data import Dataset, LabelIndex
from rankine.losses.domination import (
    DominationOptions,
    DominationRisk,
    build_domination_task,
)
from rankine.losses.domination.task import (
    LARGEST_GAP,
    check_margins,
    resolve_margin,
    resolve_table,
)

pytestmark = pytest.mark.kernels


def problem(seed, levels=3, m=24, n=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.6)
    return X, rng.integers(0, levels, m).astype(float), rng.integers(0, 3, m), rng


def test_tables_and_margins_that_do_not_fit_the_data_are_rejected():
    y = np.array([0.5, 1.5, 2.5])
    _, rows = resolve_table(np.zeros((3, 3)), y)
    assert rows.tolist() == [0, 1, 2]
    with pytest.raises(ParameterError, match="3 labels") as caught:
        resolve_table(np.zeros((2, 2)), y)
    assert caught.value.parameter == "margin_table"
    assert resolve_margin(1.0, 0.0, y, {}) is None
    assert resolve_margin(None, 1.0, y, {}) is None
    np.testing.assert_array_equal(resolve_margin(2.0, 0.5, y, {}), y)
    for columns, known in (({}, "none"), ({"b": y, "a": y}, "a, b")):
        with pytest.raises(ParameterError, match=rf"\(columns: {known}\)"):
            resolve_margin("gap", 1.0, y, columns)


@pytest.mark.parametrize("of", ["rows", "queries", "candidates"])
def test_rows_that_take_no_part_are_as_if_left_out(of):
    X, y, qid, _ = problem(3, levels=3)
    data = Dataset.from_arrays(X, y, qid)
    kept = qid != qid[0]

    def levels(keep):
        ones = np.ones(data.n_queries)
        if of == "queries":
            ones = np.array([keep[data.queries.rows_of(q)].any() for q in range(data.n_queries)])
        return build_domination_task(
            y,
            data.queries,
            ones.astype(np.float64),
            DominationOptions(),
            weight=keep.astype(np.float64) if of == "rows" else None,
            candidates=keep if of == "candidates" else None,
        )

    part = Dataset.from_arrays(X[kept], y[kept], qid[kept])
    alone = build_domination_task(
        part.y, part.queries, np.ones(part.n_queries), DominationOptions()
    )
    assert DominationRisk(levels(kept)).at_zero == pytest.approx(DominationRisk(alone).at_zero)
    with pytest.raises(NoPairsError):
        levels(np.zeros(len(y), dtype=bool))


def test_margins_can_be_a_column():
    X, y, qid, _ = problem(2, levels=3)
    data = Dataset.from_arrays(X, y, qid)
    ones = np.ones(data.n_queries)
    named = build_domination_task(
        y, data.queries, ones, DominationOptions(margin="gap"), columns={"gap": 0.5 * y}
    )
    given = build_domination_task(y, data.queries, ones, DominationOptions(margin=0.5))
    assert DominationRisk(named).at_zero == DominationRisk(given).at_zero


def test_margins_are_numbers_functions_rows_or_columns():
    y = np.array([0.0, 1.0, 3.0])
    for margin in (2.0, np.float32(2.0), lambda labels: 2.0 * labels, 2.0 * y, [0, 2, 6], "gap"):
        found = resolve_margin(margin, 0.5, y, {"gap": 2.0 * y})
        np.testing.assert_array_equal(found, y)
    np.testing.assert_array_equal(resolve_margin(0.0, 1.0, y, {}), np.zeros(3))
    for scale in (-0.1, np.inf, np.nan):
        with pytest.raises(ParameterError) as caught:
            resolve_margin(None, scale, y, {})
        assert caught.value.parameter == "margin_scale"
    for margin in (-1.0, np.inf, -np.inf, np.nan):
        with pytest.raises(ParameterError) as caught:
            resolve_margin(margin, 1.0, y, {})
        assert caught.value.parameter == "margin"
    for rows, fact in (([1.0, 2.0], r"\(2,\).* 3 rows"), ([1.0, np.nan, np.inf], "row 1 .*nan")):
        with pytest.raises(SchemaError, match=fact) as caught:
            resolve_margin(rows, 1.0, y, {})
        assert caught.value.parameter == "margin"


def test_a_higher_label_never_has_the_smaller_margin_within_a_query():
    y, qid = np.array([0.0, 1.0, 1.0, 2.0, 0.0, 3.0]), np.array([7, 7, 7, 7, 5, 5])
    data = Dataset.from_arrays(np.zeros((6, 1)), y, qid)
    labels = LabelIndex.build(data.queries, y)
    for legal in ([0.0, 1, 2, 2, 0, 1], [5.0, 5, 5, 5, 0, 0], np.zeros(6)):
        check_margins(labels, np.array(legal), y, data.queries.ids)
    words = "query 7: a row of label 2 has margin 1.5, below the margin 2 of a row of label 1"
    with pytest.raises(SchemaError, match=words):
        check_margins(labels, np.array([0.0, 1.0, 2.0, 1.5, 0.0, 1.0]), y, data.queries.ids)
    words = "query 5: a row of label 3 has margin 1, below the margin 4 of a row of label 0"
    with pytest.raises(SchemaError, match=words):
        check_margins(labels, np.array([0.0, 1.0, 1.0, 2.0, 4.0, 1.0]), y, data.queries.ids)
    none = data.take(slice(0, 0))
    check_margins(LabelIndex.build(none.queries, none.y), np.zeros(0), none.y, none.queries.ids)


def test_tables_are_square_and_their_gaps_finite():
    y = np.array([0.0, 1.0])
    for shape in ((2,), (2, 3), (3, 2), (1, 1), (2, 2, 2)):
        with pytest.raises(ParameterError) as caught:
            resolve_table(np.zeros(shape), y)
        assert caught.value.parameter == "margin_table"
    for gap in (-0.5, np.nan, np.inf, LARGEST_GAP + 0.5):
        with pytest.raises(ParameterError) as caught:
            resolve_table([[0.0, 0.0], [gap, 0.0]], y)
        assert caught.value.parameter == "margin_table"
    own, _ = resolve_table([[1.0, np.inf], [LARGEST_GAP, np.nan]], y)
    assert own.tolist() == [[0.0, 0.0], [LARGEST_GAP, 0.0]]
    assert resolve_table(None, y) is None
    assert resolve_table(np.zeros((2, 2)), np.zeros(0))[1].shape == (0,)


@pytest.mark.parametrize(
    ("y", "rows"),
    [
        ([0, 2], [0, 2]),  # numbers of rows themselves
        ([0, 1, 3], [0, 1, 2]),  # a label beyond the table: by order
        ([-1, 0, 2], [0, 1, 2]),
        ([0.5, 1, 2], [0, 1, 2]),
        ([2, 1, 1, 0], [2, 1, 1, 0]),
    ],
)
def test_labels_number_the_rows_of_a_table_or_are_numbered(y, rows):
    assert resolve_table(np.zeros((3, 3)), np.array(y, dtype=float))[1].tolist() == rows


def test_rows_take_part_by_weight_query_and_candidacy_together():
    X, y, qid, rng = problem(3, levels=3)
    data = Dataset.from_arrays(X, y, qid)
    weight, candidates = rng.choice([0.0, 1.0, 2.0], len(y)), rng.random(len(y)) < 0.8
    query_weight = np.array([1.0, 0.0, 2.0])
    kept = (weight > 0) & candidates & (query_weight[data.queries.codes] > 0)
    options = DominationOptions("query", margin=0.5, margin_table=np.tril(np.ones((3, 3)), -1))
    levels = build_domination_task(
        y, data.queries, query_weight, options, weight=weight, candidates=candidates
    )
    part = Dataset.from_arrays(X[kept], y[kept], qid[kept])
    own = np.array([query_weight[data.queries.ids.tolist().index(q)] for q in part.queries.ids])
    alone = build_domination_task(part.y, part.queries, own, options, weight=weight[kept])
    scores = rng.normal(size=len(y))
    value, slopes = DominationRisk(levels).evaluate(scores)
    expected, own_slopes = DominationRisk(alone).evaluate(scores[kept])
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slopes[kept], own_slopes, rtol=1e-12, atol=1e-15)
    assert not slopes[~kept].any()
