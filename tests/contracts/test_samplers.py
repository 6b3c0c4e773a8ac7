"""Every sampler draws pairs of positive weight, and the same ones for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.data import Dataset
from rankine.kernels.random import random_bits
from rankine.samplers.draw import SAMPLINGS, draw_pair, pair_sampler
from rankine.samplers.reservoir import Reservoir

pytestmark = pytest.mark.kernels

RULES_AND_TIES = [(rule, False) for rule in SAMPLINGS]
RULES_AND_TIES += [(rule, True) for rule in SAMPLINGS if rule != "indexed"]


def lists(weighted):
    rng = np.random.default_rng(1)
    qid = rng.integers(0, 6, 60)
    weight = rng.choice([0.0, 0.5, 2.0], 60) if weighted else None
    return Dataset.from_arrays(np.zeros((60, 1)), rng.integers(0, 4, 60), qid, weight=weight)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("sampling", "ties"), RULES_AND_TIES)
def test_drawn_rows_are_pairs_of_positive_weight(sampling, ties, weighted):
    data = lists(weighted)
    sampler = pair_sampler(data, np.ones(data.n_queries), sampling=sampling, ties=ties)
    for step in range(400):
        a, b, t = draw_pair(sampler, random_bits(7, step), step)
        assert a != b
        assert data.qid[a] == data.qid[b]
        assert t == (1.0 if data.y[a] > data.y[b] else 0.0)
        assert data.y[a] >= data.y[b]
        assert ties or t == 1.0
        if weighted:
            assert data.weight[a] * data.weight[b] > 0.0
        assert draw_pair(sampler, random_bits(7, step), step) == (a, b, t)


@pytest.mark.parametrize("buffer_rows", [16, 40, 1000])
def test_pairs_of_a_sample_of_a_stream_are_pairs(buffer_rows):
    data = lists(weighted=True)
    reservoir = Reservoir(buffer_rows, seed=3)
    for start in range(0, data.n_rows, 7):
        reservoir.add(data.take(slice(start, start + 7)))
    sample, _ = reservoir.sample()
    sampler = pair_sampler(sample, np.ones(sample.n_queries))
    for step in range(200):
        a, b, _ = draw_pair(sampler, random_bits(7, step), step)
        assert sample.qid[a] == sample.qid[b]
        assert sample.y[a] > sample.y[b]
        assert sample.weight[a] * sample.weight[b] > 0.0
