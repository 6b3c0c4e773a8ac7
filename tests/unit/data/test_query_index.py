"""Which rows belong to which query and label, beside sorting in plain Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from error_checks import raises_for
from rankine.core.checks import check_group
from rankine.core.errors import NoPairsError, SchemaError
from rankine.data import LabelIndex, QueryIndex
from rankine.data.query_index import FEW_LEVELS, check_qid


def labels_of(qid, y):
    return LabelIndex.build(QueryIndex.from_qid(qid, len(y)), np.asarray(y, dtype=float))


@pytest.mark.kernels
@pytest.mark.parametrize("levels", [1, 2, 3, FEW_LEVELS, FEW_LEVELS + 1, 200])
@pytest.mark.parametrize("grouped", [True, False])
def test_rows_are_ordered_by_query_and_label(levels, grouped):
    rng = np.random.default_rng(levels)
    y = rng.permutation(np.concatenate([np.arange(levels), rng.integers(0, levels, 60)])) * 0.5 - 1
    qid = np.repeat(np.arange(4), [0, 1, 5, len(y) - 6]) + 10
    qid = qid if grouped else rng.permutation(qid)
    index, found = QueryIndex.from_qid(qid, len(y)), labels_of(qid, y)
    order, level_starts, level_ptr = [], [0], [0]
    for query in index.ids:
        rows = np.flatnonzero(qid == query)
        for label in np.unique(y[rows]):
            order += rows[y[rows] == label].tolist()
            level_starts.append(len(order))
        level_ptr.append(len(level_starts) - 1)
    assert found.order.tolist() == order
    assert found.level_starts.tolist() == level_starts
    assert found.level_ptr.tolist() == level_ptr
    sizes = [np.unique(y[qid == query], return_counts=True)[1] for query in index.ids]
    assert found.level_sizes.tolist() == np.concatenate(sizes).tolist()
    assert found.n_levels.tolist() == [len(counts) for counts in sizes]
    pairs = [sum(a * b for k, a in enumerate(c) for b in c[:k]) for c in sizes]
    assert found.pair_counts.tolist() == pairs
    assert found.n_pairs == sum(pairs)
    assert found.queries_with_pairs.tolist() == [k for k, count in enumerate(pairs) if count]


@pytest.mark.kernels
@pytest.mark.parametrize("levels", [2, FEW_LEVELS + 2])
def test_a_query_without_rows_has_no_levels(levels):
    y = np.arange(levels)[::-1].astype(float)
    queries = QueryIndex(np.arange(4), np.array([0, 0, levels, levels, levels]))
    found = LabelIndex.build(queries, y)
    assert found.level_ptr.tolist() == [0, 0, levels, levels, levels]
    assert found.level_starts.tolist() == list(range(levels + 1))
    assert found.order.tolist() == list(range(levels))[::-1]
    assert found.queries_with_pairs.tolist() == [1]


@pytest.mark.kernels
@pytest.mark.parametrize("spread", [0, 40, 200])
def test_masses_of_levels_keep_light_ones_beside_heavy_ones(spread):
    """By fractions: nothing is lost however many times heavier other levels and queries are."""
    rng = np.random.default_rng(spread)
    qid, y = np.repeat(np.arange(30), 6), rng.integers(0, 3, 180)
    weight = rng.random(180) * 2.0 ** rng.integers(-spread, spread + 1, 180)
    weight[rng.random(180) < 0.2] = 0.0
    found = labels_of(qid, y)
    exact = [Fraction(value) for value in weight.tolist()]
    level = {}
    for q, label, value in zip(qid.tolist(), y.tolist(), exact, strict=True):
        level[q, label] = level.get((q, label), 0) + value
    whole = {q: sum(one for (owner, _), one in level.items() if owner == q) for q in range(30)}
    expected = [float(own * (whole[q] - own)) for (q, _), own in sorted(level.items())]
    np.testing.assert_allclose(found.level_masses(weight), expected, rtol=1e-14, atol=0.0)
    np.testing.assert_array_equal(found.level_masses(None), found.level_masses(np.ones(180)))


def test_a_better_and_a_worse_row_are_needed():
    with pytest.raises(NoPairsError):
        labels_of([1, 1, 2], [3, 3, 0]).require_pairs()
    labels_of([1, 1, 2], [3, 0, 0]).require_pairs()


def test_ids_of_every_kind():
    whole = np.iinfo(np.int64)
    for given, kind in (
        ([3, 3, 1], "i"), (np.array([3, 3, 1], np.uint8), "i"), ([True, True, False], "i"),
        ([3.0, 3.0, 1.0], "i"), (np.array([3, np.int32(3), 1], dtype=object), "i"),
        (["b", "b", "a"], "U"), (np.array(["b", "b", "a"], dtype=object), "U"),
        (np.array(["b", "b", "a"]), "U"), (np.array(["b", "b", "a"], np.dtypes.StringDType()), "T"),
    ):  # fmt: skip
        found = check_qid(given)
        assert found.dtype.kind == kind
        assert found.tolist() == np.asarray(given).tolist()
    assert check_qid(np.array([whole.max], np.uint64)).tolist() == [whole.max]
    assert check_qid(np.array([2.0**53 - 1, -(2.0**53) + 1])).tolist() == [2**53 - 1, -(2**53) + 1]
    assert check_qid(np.zeros(0, np.uint64)).tolist() == []


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([[1, 2]], "one-dimensional"),
        (np.array([1, 2**63], np.uint64), r"exceeds 2\^63 - 1"),
        ([1.0, 2.5], "qid of row 1 is .*2.5"),
        ([1.0, 2.0**53], "qid of row 1 is"),
        ([1.0, -(2.0**53)], "qid of row 1 is"),
        ([1.0, 2.0, np.nan], "qid of row 2 is missing"),
        ([1.0, np.inf], "qid of row 1 is .*inf"),
        (["a", None], "qid of row 1 is missing"),
        (["a", np.nan, "b"], "qid of row 1 is missing"),
        (np.array(["a", "b", 3], dtype=object), "qid of row 2 is 3"),
        (np.array([1, "b", np.int64(3), 4], dtype=object), "qid of row 1 is 'b'"),
        (np.array(["a", 1], dtype=object), "qid of row 0 is 'a'"),
        (np.array([1, 2.5, 3], dtype=object), "qid of row 1 is 2.5"),
        (np.array(["2026-01-01"], "M8[D]"), r"type datetime64\[D\]"),
        (np.array([1j]), "type complex128"),
        ([1, 2**63, 2**70], "qid of row 1 is 9223372036854775808"),
        ([-(2**70), 1], "qid of row 0 is -"),
    ],
)
def test_ids_that_are_none_are_named(given, reason):
    with pytest.raises(SchemaError, match=reason):
        check_qid(given)


def test_sizes_of_groups():
    index = QueryIndex.from_group([2, 0, 3], 5)
    assert (index.ids.tolist(), index.starts.tolist()) == ([0, 2], [0, 2, 5])
    assert (index.n_rows, index.n_queries, index.rows) == (5, 2, None)
    assert check_group(np.array([0, 2], np.uint8)).dtype == np.int64
    for bad in ([-1, 6], [[5]], [2.5, 2.5], ["5"]):
        with raises_for("group", SchemaError):
            QueryIndex.from_group(bad, 5)
    for total in (4, 6):
        with pytest.raises(SchemaError, match=f"add up to 5 rows but the data has {total}"):
            QueryIndex.from_group([2, 3], total)


def test_one_query_or_none():
    one, none = QueryIndex.from_qid(None, 3), QueryIndex.from_qid(None, 0)
    assert (one.ids.tolist(), one.starts.tolist()) == ([0], [0, 3])
    assert (none.ids.tolist(), none.starts.tolist(), none.n_queries) == ([], [0], 0)
    empty = QueryIndex.from_qid(np.zeros(0, dtype="U1"), 0)
    assert (empty.n_queries, empty.starts.tolist()) == (0, [0])
    with pytest.raises(SchemaError, match="2 entries for 1 rows"):
        QueryIndex.from_qid([1, 2], 1)
    assert QueryIndex.from_qid([5, 5, 4, 4], 4).rows is None
    assert QueryIndex.from_qid([5, 4, 5], 3).rows.tolist() == [0, 2, 1]
