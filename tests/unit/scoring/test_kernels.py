"""Weight tables, exact sums and kernels for compressed rows."""

import math
import random
from types import SimpleNamespace

import numpy as np
import pytest

from rankine.model import LinearModel
from rankine.scoring import Scorer
from rankine.scoring.kernels import DenseTable, HashTable, _rounded, build_table, exact_scores

pytestmark = pytest.mark.kernels


def test_the_hash_table_finds_every_weight_and_nothing_else():
    rng = np.random.default_rng(0)
    n = 2**31 - 1
    indices = np.unique(np.concatenate([rng.integers(0, n, 300), np.arange(5, 90), [n - 1]]))
    model = LinearModel(n, indices, rng.normal(size=len(indices)))
    absent = np.setdiff1d(rng.integers(0, n, 500), indices)
    probe = np.concatenate([indices, absent])
    rows = SimpleNamespace(
        indptr=np.arange(len(probe) + 1), indices=probe, data=np.ones(len(probe))
    )
    scores = Scorer(model).score(rows)
    assert scores.tolist() == [*model.values.tolist(), *([0.0] * len(absent))]


def test_exact_scores_are_fsum():
    rng = random.Random(8)
    for width in (0, 1, 2, 5, 33):
        rows = [
            [rng.gauss(0, 1) * 10.0 ** rng.randint(-20, 20) for _ in range(width)] for _ in "xy"
        ]
        rows.append([(-1.0) ** j * 1e16 for j in range(width)])
        weights = [rng.choice([1.0, -1.0, 1e-8, rng.gauss(0, 1)]) for _ in range(width)]
        values, out = np.array(rows).reshape(3, width), np.empty(3)
        assert exact_scores(values, np.array(weights), out)
        expected = [math.fsum(x * w for x, w in zip(row, weights, strict=True)) for row in rows]
        assert out.tolist() == expected


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # with the JIT off
def test_sums_between_two_doubles_are_rounded_to_even():
    rows = [
        [2.0**53, -0.5, -(2.0**-54)], [2.0**53, 1.0, 2.0**-100], [2.0**53 + 10, 1.0, 2.0**-100],
        [2.0**53 - 4, 0.5, 2.0**-54], [1e16, 1.0, 1e-16], [2.0**53, 1.0, -(2.0**-100)],
        [1.0, 2.0**-53, 2.0**-106], [1.0, 2.0**-53, -(2.0**-106)], [1.0, 2.0**-53, 0.0],
        [1.0 + 2.0**-52, 2.0**-53, 0.0], [1.0, -1.0, 2.0**-200], [0.0, 0.0, 0.0],
        [1.0, 1e-300, -1.0],
    ]  # fmt: skip
    values = np.array([*rows, *(-np.array(rows))])
    out = np.empty(len(values))
    assert exact_scores(values, np.ones(3), out)
    assert out.tolist() == [math.fsum(row) for row in values.tolist()]
    for bad in (np.nan, np.inf, -np.inf):
        assert not exact_scores(np.array([[1.0, bad]]), np.ones(2), np.empty(1))


@pytest.mark.parametrize("beside", [1e5, -1e5])
def test_what_lies_beside_partial_sums_is_not_read(beside):
    """They grow in size and do not overlap; half of the last place goes by the next one's sign."""
    for parts in (
        [], [3.0], [2.0**-53, 1.0], [-(2.0**-53), 1.0], [2.0**-106, 2.0**-53, 1.0],
        [-(2.0**-106), 2.0**-53, 1.0], [2.0**-160, -(2.0**-106), -(2.0**-53), 1.0 + 2.0**-52],
    ):  # fmt: skip
        for sign in (1, -1):
            partials = np.array([sign * part for part in parts] + [beside] * 3)
            assert _rounded(partials, len(parts)) == math.fsum(partials[: len(parts)])


@pytest.mark.parametrize("small", [True, False])
def test_compressed_rows_are_added_in_four_sums(small):
    """To the bit: blocks of four values in four sums, what is left over in the first."""
    rng = np.random.default_rng(2)
    w = np.zeros(300)
    w[:40] = rng.normal(size=40) * 10.0 ** rng.integers(-8, 9, 40)
    scorer = Scorer(LinearModel.from_weights(w), small=small)
    for size in range(14):
        for _ in range(5):
            indices, data = np.sort(rng.choice(40, size, replace=False)), rng.normal(size=size)
            products = (data * w[indices]).tolist()
            whole = size - size % 4
            sums = [0.0] * 4
            for k, product in enumerate(products):
                sums[k % 4 if k < whole else 0] += product
            rows = SimpleNamespace(indptr=[0, size], indices=indices, data=data)
            assert scorer.score(rows)[0] == (sums[0] + sums[1]) + (sums[2] + sums[3])


@pytest.mark.parametrize("weights", [1, 8, 9, 72])
def test_a_hash_table_is_taken_where_it_is_smaller(weights):
    slots = 8 * max(weights, 8)
    indices, values = np.arange(weights) * 2, np.arange(1.0, weights + 1)
    assert isinstance(build_table(indices, values, 2 * slots, small=True), DenseTable)
    table = build_table(indices, values, 2 * slots + 1, small=True)
    assert isinstance(table, HashTable)
    assert slots <= len(table.keys) < 2 * slots
    assert len(table.values) == len(table.keys) == 2 ** (32 - int(table.shift))
    held = np.array(table[1])
    assert sorted(held[held != 0]) == values.tolist()
    assert isinstance(build_table(indices, values, 2 * slots + 1, small=False), DenseTable)
    assert isinstance(build_table(indices, values, 2**21), DenseTable)
    assert isinstance(build_table(indices, values, 2**21 + 1), HashTable)


def test_weights_that_meet_at_the_last_slot_go_round():
    n = 2**20
    slots = (np.arange(n, dtype=np.uint64) * np.uint64(2654435769) & np.uint64(2**32 - 1)) >> 26
    last, first = np.flatnonzero(slots == 63), np.flatnonzero(slots == 0)
    indices = np.sort(np.concatenate([last[:3], first[:2]]))
    model = LinearModel(n, indices, np.arange(1.0, 6.0))
    absent = np.concatenate([last[3:6], first[2:5]])
    probe = np.concatenate([indices, absent])
    rows = SimpleNamespace(
        indptr=np.arange(len(probe) + 1), indices=probe, data=np.ones(len(probe))
    )
    scores = Scorer(model, small=True).score(rows)
    assert scores.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, *([0.0] * 6)]
