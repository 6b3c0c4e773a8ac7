"""Parsing of list objectives; levels, weights and cutoffs of lists."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import ParameterError
from rankine.data import Dataset
from rankine.kernels.lists import DcgGain, RecallGain
from rankine.losses.base import needs_pairs
from rankine.losses.list_objectives import (
    METRIC_OBJECTIVES,
    NO_CUTOFF,
    objective_names,
    parse_objective,
)
from rankine.losses.lists import AllPairs, Pointwise, PointwiseSquared
from rankine.losses.pairwise.hinge import Hinge

pytestmark = pytest.mark.kernels


def columned(y, qid, **columns):
    return Dataset.from_arrays(np.zeros((len(y), 1)), y, qid, columns=columns)


def test_objectives_are_parsed_into_specifications():
    longest = 7
    spec = parse_objective("ndcg@5").spec(longest)
    assert isinstance(spec.gain, DcgGain)
    assert spec.gain.normalised
    assert len(spec.gain.discounts) == longest
    assert len(parse_objective("ndcg@5").spec(0).gain.discounts) == 1
    assert not parse_objective("dcg").spec(longest).gain.normalised
    assert not spec.rank_by_label
    assert parse_objective("ndcg", delta="target").spec(longest).rank_by_label
    assert parse_objective("recall@3").spec(longest).gain == RecallGain()
    plain = parse_objective("pairwise", loss="hinge", margin=0.5).spec(longest)
    assert plain == AllPairs(Hinge(0.5))
    assert parse_objective("pointwise", loss="hinge").spec(longest) == Pointwise(Hinge(1.0))
    assert parse_objective("pointwise", loss="squared").spec(longest) == PointwiseSquared()
    assert isinstance(parse_objective("pairwise", loss="squared").spec(longest), AllPairs)
    assert [bool(needs_pairs(s)) for s in (plain, Pointwise(Hinge()), PointwiseSquared())] == [
        True, False, False,
    ]  # fmt: skip
    assert objective_names() == ("pairwise", "ndcg", "dcg", "recall@10", "mrr", "map")
    assert set(METRIC_OBJECTIVES) == {"ndcg", "dcg", "recall", "mrr", "map"}


@pytest.mark.parametrize("words", ["map@3", "precision@3", "err@5"])
def test_metrics_without_swap_gains_are_rejected(words):
    with pytest.raises(ParameterError, match=repr(words)):
        parse_objective(words)


def test_invalid_options_are_rejected():
    for wrong in ({"loss": "cubic"}, {"delta": "best"}, {"margin": -0.1}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            parse_objective("pairwise", **wrong)
    assert parse_objective("pairwise", margin=0.0).margin == 0.0
    assert parse_objective("map").metric.cutoff is None


def test_levels_are_gains_relevance_or_labels():
    y, qid = np.array([0.0, 2.0, 1.0, -1.0, 3.0, 0.0]), np.array([1, 1, 1, 2, 2, 3])
    data = columned(y, qid)
    np.testing.assert_array_equal(parse_objective("pairwise").levels(data), y)
    raised = np.array([0.0, 2.0, 1.0, 0.0, 4.0, 0.0])  # from the lowest of a list, if negative
    np.testing.assert_array_equal(parse_objective("ndcg").levels(data), 2.0**raised - 1.0)
    np.testing.assert_array_equal(parse_objective("ndcg:gain=linear").levels(data), raised)
    found = parse_objective("recall@2:threshold=2").levels(data)
    np.testing.assert_array_equal(found, [0, 1, 0, 0, 1, 0])
    np.testing.assert_array_equal(parse_objective("mrr").levels(data), [0, 1, 1, 0, 1, 0])
    graded = columned(np.abs(y), qid)
    found = parse_objective("dcg:gain=0,1,3,9").levels(graded)
    np.testing.assert_array_equal(found, [0, 3, 1, 1, 9, 0])
    alone = columned(np.array([-2.0]), np.zeros(1, int))
    assert parse_objective("ndcg:gain=linear").levels(alone).tolist() == [0.0]
    empty = data.take(slice(0, 0))
    assert parse_objective("ndcg").levels(empty).shape == (0,)


@pytest.mark.parametrize(("top", "sensible"), [(31.0, True), (32.0, False)])
def test_exponential_gains_of_large_labels_are_rejected(top, sensible):
    data = columned(np.array([0.0, top]), np.zeros(2, int))
    if sensible:
        assert parse_objective("ndcg").levels(data).tolist() == [0.0, 2.0**31 - 1.0]
        return
    with pytest.raises(ParameterError, match="a label spans 32, "):
        parse_objective("ndcg").levels(data)


def test_cutoffs_and_displayed_items_come_from_columns():
    y, qid = np.array([1.0, 0.0, 2.0, 1.0]), np.array([1, 1, 2, 2])
    data = columned(y, qid, shown=np.array([1, 1, 2, 2]), seen=np.array([1, 0, 1, 1]))
    assert parse_objective("pairwise").cutoffs(data).tolist() == [NO_CUTOFF] * 2
    assert parse_objective("ndcg").cutoffs(data).tolist() == [NO_CUTOFF] * 2
    assert parse_objective("ndcg@7").cutoffs(data).tolist() == [7, 7]
    assert parse_objective("recall@shown").cutoffs(data).tolist() == [1, 2]
    assert parse_objective("pairwise").row_weights(data) is None
    seen = parse_objective("ndcg:displayed=seen")
    assert seen.row_weights(data).tolist() == [1.0, 0.0, 1.0, 1.0]
    assert seen.levels(data).tolist() == [1.0, 0.0, 3.0, 1.0]
    weighed = Dataset.from_arrays(
        data.X, y, qid, weight=np.array([2.0, 3.0, 4.0, 5.0]), columns=data.columns
    )
    assert seen.row_weights(weighed).tolist() == [2.0, 0.0, 4.0, 5.0]
    assert parse_objective("ndcg").row_weights(weighed).tolist() == [2.0, 3.0, 4.0, 5.0]
