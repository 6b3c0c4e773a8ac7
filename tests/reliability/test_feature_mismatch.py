"""Rows with other features than the model's raise an error, for every mismatch and storage."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import FeatureMismatchError
from rankine.core.specs import ListRange
from rankine.model import LinearModel
from rankine.scoring import Scorer

pytestmark = pytest.mark.reliability


def mismatch(rng, names):
    """Draw rows that do not fit the model: another width, index or name."""
    n, d = rng.randint(1, 5), len(names)
    other = rng.choice([d - 1, d + 1, 2 * d, 1, d + 1000])
    kind = rng.randrange(6)
    if kind == 0:
        return np.ones((n, other), dtype=rng.choice([np.float32, np.float64]))
    if kind == 1:
        return sparse.csr_array(np.ones((n, other)))
    if kind == 2:
        bad = rng.choice([-1, d, d + 1, 2**31, 2**40, -(2**40)])
        return SimpleNamespace(indptr=[0, 2], indices=[0, bad], data=[1.0, 1.0])
    if kind == 3:
        name = rng.choice(names)
        wrong = rng.choice([name + " ", name.upper(), name[:-1], "0" + name, "é" + name])
        return [{names[0]: 1.0}, {wrong: 1.0}]
    if kind == 4:
        return {rng.choice(names) + "_": [1.0, 2.0]}
    return np.ones(rng.choice([d, n, d * n])).tolist()


@pytest.mark.parametrize("transforms", [(), (ListRange(),)])
def test_two_hundred_mismatches_are_all_caught(transforms):
    rng = random.Random(39)
    names = [f"feature_{j:02d}x" for j in range(12)]
    scorer = Scorer(LinearModel.from_weights(np.arange(12.0), names, transforms=transforms))
    for case in range(200):
        rows = mismatch(rng, names)
        with pytest.raises(FeatureMismatchError):
            pytest.fail(f"case {case}: {scorer.score(rows)} for {rows}")
