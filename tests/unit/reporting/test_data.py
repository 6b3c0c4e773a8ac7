"""The data section counts correctly."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from markupsafe import Markup
from scipy import sparse

from rankine import Dataset, LinearModel
from rankine.metrics import data_columns, evaluate, parse_metric
from rankine.reporting.data import (
    Histogram,
    _facts,
    column_ranges,
    data_section,
    data_summary,
    drift_section,
    lengths,
    levels,
)
from rankine.reporting.evaluated import evaluate_model
from rankine.reporting.headline import (
    headline,
)
from rankine.reporting.run import evaluate_subject
from unit.reporting.report_cases import random_data, words
from unit.reporting.test_svg import Drawn

NDCG = parse_metric("ndcg@10")


def test_features_that_cannot_help_are_named():
    data = random_data(8, 6, 5)
    X = data.X.copy()
    X[:, 0], X[:, 1], X[:, 2] = 0.0, 7.0, data.qid
    data = Dataset.from_arrays(X, data.y, data.qid, feature_names=list("abcde"))
    for matrix in (data.X, sparse.csr_array(data.X)):
        same = Dataset.from_arrays(matrix, data.y, data.qid, feature_names=list("abcde"))
        found = data_summary(evaluate_subject(LinearModel.from_weights(np.ones(5)), same))
        assert (found.zero_names, found.constant_names, found.flat_names) == (["a"], ["b"], ["c"])
        assert found.fingerprint == data.fingerprint
    assert found.rows == 48
    assert sum(found.labels.counts) == 48
    assert sum(found.lengths.counts) == found.queries == 8


def test_column_ranges_see_implicit_zeros():
    data = random_data(5, 5, 40, make_sparse=True)
    low, high = column_ranges(data.X)
    np.testing.assert_array_equal(low, data.X.toarray().min(axis=0))
    np.testing.assert_array_equal(high, data.X.toarray().max(axis=0))


def test_queries_without_relevant_items_are_counted():
    data = random_data(6, 4, 2)
    y = np.where(data.qid < 2, 0, data.y)
    evaluated = evaluate_subject(LinearModel.from_weights([1.0, 2.0]),
                           Dataset.from_arrays(data.X, y, data.qid))  # fmt: skip
    found = data_summary(evaluated)
    assert found.without_value == sum((y[data.qid == q] == 0).all() for q in range(6)) >= 2
    expected = evaluate(
        "ndcg@10", y, evaluated.scores, data.qid, columns=data_columns(evaluated.data)
    )
    assert headline(evaluated, NDCG).model.mean == expected


def test_the_lengths_of_lists_have_quantiles():
    sizes = [1, 2, 4, 9, 3]
    qid = np.repeat(np.arange(5), sizes)
    y = np.arange(len(qid)) % 2
    data = Dataset.from_arrays(np.arange(len(qid))[:, None] * 1.0, y, qid)
    found = data_summary(evaluate_model(LinearModel.from_weights([1.0]), data))
    assert found.length_quantiles == [1, 2, 3, 4, 9]
    assert found.without_pairs == 1


def test_levels_and_lengths_are_counted_in_bins_of_one_width():
    for n_levels in (12, 13, 40):
        y = np.arange(80) % n_levels
        found = levels(SimpleNamespace(y=y * 1.0))
        assert sum(found.counts) == 80
        assert bool(found.names) == (n_levels == 12)
        assert len(found.edges) == len(found.counts) + 1
        assert len(found.counts) == (12 if n_levels == 12 else 20)
    for sizes in ([3, 3], [1, 20], [1, 21, 7], [5, 44, 44, 6], [10, 49, 30]):
        found = lengths(SimpleNamespace(queries=SimpleNamespace(sizes=np.array(sizes))))
        span = max(sizes) - min(sizes) + 1
        width = math.ceil(span / 20)
        assert found.edges[0] == min(sizes) - 0.5
        assert np.diff(found.edges) == pytest.approx(width)
        assert len(found.counts) == math.ceil(span / width)
        assert sum(found.counts) == len(sizes)


def test_column_ranges_leave_out_what_is_missing():
    X = np.array([[1.0, np.nan, -3.0], [2.0, 5.0, np.nan]])
    for matrix in (X, sparse.csr_array(np.nan_to_num(X, nan=4.0))):
        low, high = column_ranges(matrix)
        dense = matrix if matrix is X else matrix.toarray()
        assert low.tolist() == np.nanmin(dense, axis=0).tolist()
        assert high.tolist() == np.nanmax(dense, axis=0).tolist()
    full = sparse.csr_array(np.array([[2.0, -1.0], [3.0, -4.0]]))
    assert [part.tolist() for part in column_ranges(full)] == [[2.0, -4.0], [3.0, -1.0]]


def test_facts_of_the_data():
    data = random_data(8, 6, 3)
    found = data_summary(evaluate_model(LinearModel.from_weights(np.ones(3)), data))
    told = dict(_facts(found))
    assert told["features"] == "3, dense float64, 144 values"
    assert told["same label only"] == "0 queries without any pair"
    assert told["dead features"].startswith("none")
    assert told["counted by the reader"] == "no row skipped, no value replaced"
    assert not {
        "always zero",
        "constant",
        "constant within lists",
        "files",
        "further columns",
    } & set(told)
    for name, title in (("zero", "always zero"), ("constant", "constant"),
                        ("flat", "constant within lists")):  # fmt: skip
        one = replace(found, **{name: 2, f"{name}_names": ["a", "b"]})
        rows = dict(_facts(one))
        assert "dead features" not in rows
        assert words(rows[title]).replace(" ,", ",") == "2 features: a, b"
    one = replace(found, without_pairs=2, without_value=1, no_relevant="skip", columns=["docid"],
                  sources=["x.txt"], notes={"rows_skipped": 7})  # fmt: skip
    rows = {key: words(value) for key, value in _facts(one)}
    assert rows["same label only"] == (
        "2 queries without any pair; 1 query without a relevant item are left out of the means"
    )
    assert (rows["further columns"], rows["files"]) == ("docid", "x.txt")
    assert rows["counted by the reader"] == "rows skipped : 7"
    rows = dict(_facts(replace(one, no_relevant="0")))
    assert rows["same label only"].endswith("count 0 in the means")
    assert dict(_facts(replace(one, no_relevant=None)))["same label only"].endswith("any pair")


def test_the_data_section_draws_labels_and_lengths():
    data = random_data(8, 6, 3)
    found = data_summary(evaluate_model(LinearModel.from_weights(np.ones(3)), data))
    named = replace(
        found, labels=Histogram(["0", "2"], [0, 1, 2], [30, 10]),
        length_quantiles=[2.0, 3.0, 4.0, 5.0, 9.0],
    )  # fmt: skip
    section = data_section(named)
    assert section.lead == (
        "48 items in 8 queries; lists hold 2 to 9 items, half of them 4 or fewer."
    )
    assert "75 % have label 0." in words(section.body)
    drawn = Drawn(Markup("<div>%s</div>") % section.body)
    assert [tick["text"] for tick in drawn.of("tick mid")][:2] == ["0", "2"]
    real = replace(named, labels=Histogram([], [0.0, 0.5, 1.0], [3, 4]))
    assert "Items by label, in intervals of equal width" in words(data_section(real).body)


def test_the_drift_section_names_what_is_above_its_limit():
    cells = [["a"] * 6]
    quiet = SimpleNamespace(alarms=[], cells=lambda: cells)
    loud = SimpleNamespace(alarms=["a is new", "b is gone"], cells=lambda: cells)
    assert "Nothing is above its limit." in words(drift_section(quiet).body)
    assert "a is new. b is gone." in words(drift_section(loud).body)
    assert "Nothing" not in words(drift_section(loud).body)
