"""The covariance of the parameters of tables, from queries that are left out or drawn."""

from __future__ import annotations

import numpy as np

from rankine import (
    AdditiveRanker,
)
from unit.rankers.test_intervals import make_lists


def test_draws_estimate_the_covariance(monkeypatch):
    lists = make_lists()
    data = {name: lists[name] for name in ("X", "y", "qid")}
    ranker = AdditiveRanker(bins=6, pairs=0, smooth=5.0)
    exact = ranker.fit(**data, intervals=True).covariance_.standard_errors()
    monkeypatch.setattr("rankine.solvers.sketch.MAX_EXACT", 10)
    drawn = ranker.fit(**data, intervals=True).covariance_.standard_errors()
    # With so few queries the two corrections for small samples differ.
    ratio = drawn[exact > 0] / exact[exact > 0]
    assert 0.8 < np.median(ratio) < 1.3
    assert 0.6 < ratio.min() < ratio.max() < 1.4


def test_additive_intervals_have_the_same_bits_for_any_number_of_threads():
    lists = make_lists()
    data = {name: lists[name] for name in ("X", "y", "qid")}
    rankers = [AdditiveRanker(bins=6, pairs=2, smooth=5.0, n_threads=n) for n in (1, 3)]
    first, second = (ranker.fit(**data, intervals=True).to_model().digest for ranker in rankers)
    assert first == second
