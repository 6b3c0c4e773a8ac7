"""Weights, names and probes: what a model file may contain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankine.core.errors import ModelError, ModelFormatError, ParameterError
from rankine.core.specs import ListRange, LogColumns
from rankine.model.weights import (
    MAX_FEATURES,
    PackedNames,
    check_base,
    check_names,
    check_sparse,
    make_probes,
    read_only,
)


@pytest.mark.parametrize(
    ("positions", "weights", "n_features"),
    [
        ([1, 0], [1.0, 1.0], 3),
        ([0, 0], [1.0, 1.0], 3),
        ([-1], [1.0], 3),
        ([3], [1.0], 3),
        ([0], [1.0, 2.0], 3),
        ([0], [math.nan], 3),
        ([0], [0.0], 3),
        ([], [], -1),
        ([], [], MAX_FEATURES + 1),
    ],
)
def test_bad_weights_are_refused(positions, weights, n_features):
    with pytest.raises(ModelError):
        check_sparse(np.array(positions, dtype=int), np.array(weights, dtype=float), n_features)


def test_arrays_of_a_model_cannot_be_changed_from_outside():
    array = np.arange(3)
    copy = read_only(array, np.int64)
    array[0] = 7
    assert copy.tolist() == [0, 1, 2]
    assert read_only(copy, np.int64) is copy
    with pytest.raises(ValueError, match="read-only"):
        copy[0] = 1


def test_names_are_packed_and_distinct():
    names = PackedNames.pack(["a", "é", ""])
    assert (len(names), names.strings, names.positions["é"]) == (3, ("a", "é", ""), 1)
    assert len(PackedNames.pack([])) == 0
    for bad in (["a", "a"], ["\ud800"]):
        with pytest.raises(ParameterError):
            PackedNames.pack(bad)


@pytest.mark.parametrize(
    ("text", "ends"),
    [(b"ab", [1]), (b"ab", [2, 1]), (b"ab", [1, 3]), (b"ab", [-1, 2]), (b"a", []),
     (b"\xff", [1]), (b"abab", [2, 4])],
)  # fmt: skip
def test_damaged_names_are_refused(text, ends):
    with pytest.raises(ModelFormatError):
        PackedNames(np.frombuffer(text, dtype=np.uint8), np.array(ends, dtype=np.int64))


def test_probes_have_the_scores_of_their_rows():
    values = [1.5, -2.0, 0.25]
    probes = make_probes([1, 4, 9], values, ())
    for row, score in zip(probes.rows, probes.scores, strict=True):
        assert row.indices == (1, 4, 9)
        assert score == math.fsum(w * x for w, x in zip(values, row.values, strict=True))
    scaled = make_probes([1, 4, 9], values, (ListRange(),))
    assert scaled.rows == probes.rows
    assert scaled.scores != probes.scores
    assert len(make_probes(range(100), [1.0] * 100, ()).rows[0].indices) == 16


def test_models_without_probes():
    assert make_probes([], [], ()) is None
    assert make_probes([0], [1e308], ()) is None
    assert make_probes([0], [1.0], (LogColumns(numeric=("a",)),)) is None


def test_bases_and_numbers_of_names():
    with pytest.raises(ModelError) as caught:
        check_base(2)
    assert caught.value.parameter == "base"
    check_names(["a"], 3, 1)
    with pytest.raises(ModelError):
        check_names(["a"], 3)
