"""``scale="choose"``: column scaling or scaling by list, whichever ranks held-out lists better."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from rankine.core.errors import NoPairsError
from rankine.data.splits import query_folds
from rankine.metrics import evaluate_on, parse_metric

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.rankers.base import BaseRanker

#: Value of ``scale`` for which the data decide.
CHOOSE = "choose"
#: What it chooses from; the first unless the second is better by more than a standard error.
CANDIDATES = ("auto", "query")
#: Lists on which it chooses, at most.
MOST_LISTS = 2000


def choose_scale(ranker: BaseRanker, data: Dataset) -> str:
    """Return the scaling with which a ranker ranks held-out lists better, over two folds.

    The ranker is fitted with its parameters. ``data`` is corrected for positions already.
    """
    if data.n_queries < 2:
        return CANDIDATES[0]
    step = -(-data.n_queries // MOST_LISTS)
    sample = data.take_queries(np.arange(0, data.n_queries, step))
    values = {}
    for scale in CANDIDATES:
        estimator = clone(ranker).set_params(
            scale=scale,
            random_state=0,
            early_stopping=None,
            warm_start=False,
            propensity=None,
            position_offset=None,
        )
        held_out = []
        try:
            for train, test in query_folds(sample, 2, random_state=0):
                with warnings.catch_warnings():
                    # The fit that follows warns of what matters.
                    warnings.simplefilter("ignore")
                    estimator.fit(train)
                held_out.append(
                    evaluate_on(test, model=estimator, metric=ranker.metric, per_query=True)
                )
        except NoPairsError:
            # Too few lists to hold some out.
            return CANDIDATES[0]
        values[scale] = np.concatenate(held_out)
    gains = parse_metric(ranker.metric).sign * (values["query"] - values["auto"])
    gains = gains[~np.isnan(gains)]
    # A scaling by list cannot be folded into weights, so it must be better by a standard error.
    error = gains.std() / np.sqrt(max(len(gains), 1))
    return CANDIDATES[int(len(gains) > 0 and gains.mean() > error)]
