"""Labels of many topics: dense with NaN, or sparse with entries that are not stored."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import ParameterError, SchemaError
from rankine.rankers.topic_labels import TopicLabels

NAN = np.nan


def columns_of(labels: TopicLabels) -> list[tuple[list[float], list[bool] | None]]:
    columns = [labels.column(topic) for topic in range(labels.n_topics)]
    return [(y.tolist(), None if mask is None else mask.tolist()) for y, mask in columns]


def test_nan_marks_rows_that_are_no_candidates() -> None:
    labels = TopicLabels.from_matrix([[1.0, NAN], [0.0, 2.0], [0.0, 0.0]], 3)
    assert columns_of(labels) == [([1, 0, 0], None), ([0, 2, 0], [False, True, True])]
    assert columns_of(TopicLabels.from_matrix([1.0, 0.0], 2)) == [([1, 0], None)]


@pytest.mark.parametrize(
    ("stored", "absent", "is_missing"),
    [([1.0, 1.0, 1.0], "auto", False), ([1.0, 0.0, 2.0], "auto", True),
     ([1.0, 1.0, 1.0], "missing", True), ([1.0, 0.0, 2.0], "zero", False)],
)  # fmt: skip
def test_entries_that_are_not_stored_are_zero_or_missing(
    stored: list[float], absent: str, is_missing: bool
) -> None:
    # A topic with a single stored label would have no pair if the others were missing.
    matrix = sparse.coo_array((stored, ([0, 1, 3], [0, 0, 0])), shape=(4, 1))
    labels = TopicLabels.from_matrix(matrix, 4, absent)
    mask = [True, True, False, True] if is_missing else None
    assert columns_of(labels) == [([stored[0], stored[1], 0.0, stored[2]], mask)]


def test_entries_stored_twice_are_added() -> None:
    matrix = sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [0, 0, 0])), shape=(2, 1))
    assert columns_of(TopicLabels.from_matrix(matrix, 2, "zero")) == [([3, 4], None)]


def test_what_absent_entries_mean_must_be_clear() -> None:
    mixed = sparse.csc_array([[1.0, 1.0], [1.0, 2.0], [0.0, 0.0]])
    for absent in ("auto", "nothing"):
        with pytest.raises(ParameterError) as caught:
            TopicLabels.from_matrix(mixed, 3, absent)
        assert caught.value.parameter == "absent"


@pytest.mark.parametrize("labels", [[[1.0], [np.inf]], [[1.0]], np.zeros((2, 1, 1))])
def test_other_labels_are_refused(labels: object) -> None:
    with pytest.raises(SchemaError) as caught:
        TopicLabels.from_matrix(labels, 2)
    assert caught.value.parameter == "Y"
