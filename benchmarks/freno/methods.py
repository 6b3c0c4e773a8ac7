"""The methods of table 1, the settings they may have, and how one is chosen.

All learn by one pass over the same lists in the same order. LR, RankSVM and RankLR are ElasticRank
with a pointwise or pairwise loss, plain gradient steps and an l2 penalty; PSGD, FOBOS, RDA and TGD
weigh pairs by what their exchange does to a metric. A setting is chosen in two rounds by NDCG, the
least noisy measure, on the last days of the training period: first the step and what is optimised,
then the penalties.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from benchmarks.workloads import AS_PRINTED
from rankine import ElasticRanker
from rankine.metrics import evaluate

#: Days of the training period, the last ``JUDGED`` of which choose, and days of the test.
TRAINED, JUDGED, TESTED = 20, 2, 2
CUTS = (1, 2, 3, 4, 5)
MEASURES = (*(f"recall@{k}" for k in CUTS), "ndcg")
DECIDES = "ndcg"

ETAS = (0.1, 0.3, 1.0, 3.0, 10.0)
LISTWISE = ("ndcg", "recall@1", "recall@4")
PLAIN = {"solver": "psgd", "theta": 0.0, "l1": 0.0, "l2": 0.0}
NOTHING = {"l1": 0.0, "l2": 0.0}

#: Method -> (fixed, first round, second round).
METHODS = {
    "LR": (
        {**PLAIN, "objective": "pointwise", "loss": "logistic"},
        {"eta0": ETAS},
        {"l2": (0.0, 1e-6, 1e-5, 1e-4)},
    ),
    "RankSVM": (
        {**PLAIN, "objective": "pairwise", "loss": "hinge"},
        {"eta0": (0.01, 0.03, 0.1, 0.3, 1.0)},
        {"l2": (0.0, 1e-5, 1e-4, 1e-3)},
    ),
    "RankLR": (
        {**PLAIN, "objective": "pairwise", "loss": "logistic"},
        {"eta0": (0.01, 0.03, 0.1, 0.3, 1.0)},
        {"l2": (0.0, 1e-5, 1e-4, 1e-3)},
    ),
    "PSGD": (
        {**PLAIN, "loss": "logistic"},
        {"eta0": ETAS, "objective": LISTWISE},
        {"loss": ("logistic", "hinge"), "theta": (0.0, 0.003, 0.01), "l2": (0.0, 1e-4)},
    ),
    "FOBOS": (
        {**NOTHING, "solver": "fobos", "loss": "logistic"},
        {"eta0": ETAS, "objective": LISTWISE},
        {"loss": ("logistic", "hinge"), "l1": (0.0, 3e-5, 1e-4), "l2": (0.0, 1e-4)},
    ),
    "RDA": (
        {**NOTHING, "solver": "rda", "loss": "logistic"},
        {"eta0": ETAS, "objective": LISTWISE},
        {"loss": ("logistic", "hinge"), "l1": (0.0, 1e-5, 1e-4), "l2": (0.0, 1e-4)},
    ),
    "TGD": (
        {**NOTHING, "solver": "tgd", "loss": "logistic"},
        {"eta0": ETAS, "objective": LISTWISE},
        {"loss": ("logistic", "hinge"), "l1": (0.0, 3e-5, 1e-4)},
    ),
    "RDA, adaptive": (
        {**NOTHING, "solver": "rda", "adaptive": True, "loss": "logistic"},
        {"eta0": (0.05, 0.1, 0.2, 0.4), "objective": LISTWISE},
        {"loss": ("logistic", "hinge"), "l1": (0.0, 1e-5, 3e-5), "l2": (0.0, 1e-4)},
    ),
}


def learn(setting, days, seed=1):
    """A ranker after one pass over days of lists, in the order of time."""
    return ElasticRanker(**{**AS_PRINTED, "random_state": seed, **setting}).fit(days)


def judge(scores, data, measures=MEASURES):
    """Every measure of a vector of scores."""
    return {m: float(evaluate(m, data.y, scores, data.queries)) for m in measures}


def expected(data, measures=MEASURES):
    """Every measure of a ranking by chance: its mean over all orders."""
    equal = np.zeros(len(data.y))
    return {m: judge(equal, data, [f"{m}:ties=expected"]).popitem()[1] for m in measures}


def settings(fixed, grid):
    """All settings of a grid."""
    return [{**fixed, **dict(zip(grid, values, strict=True))} for values in product(*grid.values())]


class Chooser:
    """Chooses settings on the last days of the training period of a log."""

    def __init__(self, log):
        self.train = log.between(1, TRAINED - JUDGED)
        self.held_out = log.between(TRAINED - JUDGED + 1, TRAINED).together()
        self.tried = 0

    def value(self, setting):
        """NDCG on the held-out days."""
        self.tried += 1
        scores = learn(setting, self.train).predict(self.held_out)
        return judge(scores, self.held_out, [DECIDES])[DECIDES]

    def best(self, candidates):
        """The best of some settings; the first of equal ones."""
        values = [self.value(setting) for setting in candidates]
        return candidates[int(np.argmax(values))]

    def choose(self, method):
        """The setting of a method of table 1."""
        fixed, first, second = METHODS[method]
        return self.best(settings(self.best(settings(fixed, first)), second))


def described(setting):
    """A setting in a few words, without what is zero."""
    shown = {k: v for k, v in setting.items() if k not in ("solver", "adaptive") and v}
    return ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in shown.items())
