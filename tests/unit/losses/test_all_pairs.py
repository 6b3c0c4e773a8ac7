"""Means and sums of pair losses against listed pairs."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.losses import pair_loss
from rankine.losses.all_pairs import MEAN_OF_SAMPLING, MeanPairLoss, PairMean
from rankine.losses.pairwise.logistic import Logistic
from reference import pairs as listed
from reference.pair_data import blocks, lists

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("mean", list(PairMean))
def test_mean_equals_the_mean_over_listed_pairs(mean, weighted):
    data, query_weight = lists(weighted)
    scores = np.random.default_rng(1).normal(size=data.n_rows)
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    of_query = dict(zip(data.queries.ids.tolist(), query_weight, strict=True))
    cells: dict = {}
    for i, j in zip(*listed.pair_list(data.y, data.qid), strict=True):
        mass = weight[i] * weight[j]
        key = (data.qid[i], (data.y[i], data.y[j]) if mean is PairMean.LABELS else None)
        total, weighs = cells.get(key, (0.0, 0.0))
        value = pair_loss(Logistic(), scores[i] - scores[j])[0]
        cells[key] = total + mass * value, weighs + mass
    sums: dict = {}
    for (q, _), (total, weighs) in cells.items():
        if weighs > 0:
            part = (total / weighs, 1.0) if mean is PairMean.LABELS else (total, weighs)
            sums[q] = np.add(sums.get(q, (0.0, 0.0)), part)
    if mean is not PairMean.PAIRS:
        sums = {q: part / part[1] for q, part in sums.items()}
    total, weighs = sum(of_query[q] * part for q, part in sums.items())
    whole, cut = MeanPairLoss(Logistic(), mean), MeanPairLoss(Logistic(), mean)
    assert np.isnan(whole.value)
    whole.add(data, scores, query_weight)
    assert whole.value == pytest.approx(total / weighs, rel=1e-12)
    for q, (block, share) in enumerate(blocks(data, query_weight)):
        cut.add(block, scores[data.queries.rows_of(q)], share)
    assert cut.value == whole.value


def test_every_sampling_has_a_mean():
    assert MEAN_OF_SAMPLING == {
        "query": PairMean.QUERIES,
        "uniform": PairMean.PAIRS,
        "rejection": PairMean.PAIRS,
        "indexed": PairMean.LABELS,
    }
