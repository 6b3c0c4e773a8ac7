"""The methods of table 1, the settings they may have, and how one is chosen.

All learn by one pass over the same lists in the same order. LR, RankSVM and RankLR are ElasticRank
with a pointwise or pairwise loss, plain gradient steps and an l2 penalty; PSGD, FOBOS, RDA and TGD
weigh pairs by what their exchange does to a metric. A setting is chosen by NDCG, the least noisy
measure, on the last days of the training period. Every method may spend the same number of passes:
it starts in the middle and moves to the first neighbour that is better, on ladders without ends, so
that no method is held back by the edge of a grid.
"""

from __future__ import annotations

import itertools

import numpy as np
from benchmarks.common.workloads import AS_PRINTED

from rankine import ElasticRanker
from rankine.core.errors import DivergenceError
from rankine.metrics import evaluate

#: Days of the training period, the last ``JUDGED`` of which choose, and days of the test.
TRAINED, JUDGED, TESTED = 20, 2, 2
CUTS = (1, 2, 3, 4, 5)
MEASURES = (*(f"recall@{k}" for k in CUTS), "ndcg")
DECIDES = "ndcg"

ETAS = (0.1, 0.3, 1.0, 3.0, 10.0)
NOTHING = {"l1": 0.0, "l2": 0.0}
PLAIN = {**NOTHING, "solver": "psgd", "theta": 0.0}
LIST = {"loss": "logistic", "objective": "ndcg", "eta0": 1.0}
#: Passes that a method may spend on its choice.
BUDGET = 24
#: A rung of a ladder is about so many times the one below; above 0, a penalty starts at ``LEAST``.
RUNG = 10**0.5
LEAST = {"l1": 1e-6, "l2": 1e-6, "theta": 1e-3}
#: Ladders are None; the others are choices.
LISTWISE = {
    "eta0": None,
    "objective": ("ndcg", "recall@1", "recall@4"),
    "loss": ("logistic", "hinge"),
}

#: Method -> (where it starts, what is chosen).
METHODS = {
    "LR": (
        {**PLAIN, "objective": "pointwise", "loss": "logistic", "eta0": 1.0},
        {"eta0": None, "l2": None},
    ),
    "RankSVM": (
        {**PLAIN, "objective": "pairwise", "loss": "hinge", "eta0": 0.1},
        {"eta0": None, "l2": None},
    ),
    "RankLR": (
        {**PLAIN, "objective": "pairwise", "loss": "logistic", "eta0": 0.1},
        {"eta0": None, "l2": None},
    ),
    "PSGD": ({**PLAIN, **LIST}, {**LISTWISE, "theta": None, "l2": None}),
    "FOBOS": ({**NOTHING, **LIST, "solver": "fobos"}, {**LISTWISE, "l1": None, "l2": None}),
    "FOBOS, no l2": ({**NOTHING, **LIST, "solver": "fobos"}, {**LISTWISE, "l1": None}),
    "RDA": ({**NOTHING, **LIST, "solver": "rda"}, {**LISTWISE, "l1": None, "l2": None}),
    "TGD": ({**NOTHING, **LIST, "solver": "tgd"}, {**LISTWISE, "l1": None}),
    "RDA, adaptive": (
        {**NOTHING, **LIST, "solver": "rda", "adaptive": True, "eta0": 0.2},
        {**LISTWISE, "l1": None, "l2": None},
    ),
}


def neighbours(setting, chosen):
    """Yield settings one rung up or down a ladder, or with another choice."""
    for name, choices in chosen.items():
        value = setting[name]
        if choices is not None:
            other_values = [choice for choice in choices if choice != value]
        elif value == 0.0:
            other_values = [LEAST[name]]
        else:
            below = value / RUNG if value / RUNG >= LEAST.get(name, 0.0) else 0.0
            other_values = [float(f"{rung:.2g}") for rung in (value * RUNG, below)]
        yield from ({**setting, name: other_value} for other_value in other_values)


def learn(setting, days, seed=1):
    """Train for one pass over days of lists, in the order of time."""
    return ElasticRanker(**{**AS_PRINTED, "random_state": seed, **setting}).fit(days)


def judge(scores, data, measures=MEASURES):
    """Compute every measure of a vector of scores."""
    return {m: float(evaluate(m, data.y, scores, data.queries)) for m in measures}


def expected(data, measures=MEASURES):
    """Compute the expected value of every measure for a random order."""
    equal = np.zeros(len(data.y))
    return {m: judge(equal, data, [f"{m}:ties=expected"]).popitem()[1] for m in measures}


def settings(fixed, grid):
    """Return all settings of a grid."""
    return [
        {**fixed, **dict(zip(grid, values, strict=True))}
        for values in itertools.product(*grid.values())
    ]


class Chooser:
    """Chooses settings on the last days of the training period of a log."""

    def __init__(self, log):
        self.train = log.between(1, TRAINED - JUDGED)
        self.held_out = log.between(TRAINED - JUDGED + 1, TRAINED).together()
        self.tried = 0

    def value(self, setting):
        """Return NDCG on the held-out days, or 0 if the training diverges."""
        self.tried += 1
        try:
            scores = learn(setting, self.train).predict(self.held_out)
        except DivergenceError:
            return 0.0
        return judge(scores, self.held_out, [DECIDES])[DECIDES]

    def best(self, candidates):
        """Return the best of some settings, the first of ties."""
        values = [self.value(setting) for setting in candidates]
        return candidates[int(np.argmax(values))]

    def choose(self, method, budget=BUDGET):
        """Choose a method's setting; also return whether the search converged within the budget."""
        best, choices = METHODS[method]
        values = {tuple(best.items()): self.value(best)}
        while True:
            untried = [n for n in neighbours(best, choices) if tuple(n.items()) not in values]
            for setting in untried[: budget - len(values)]:
                values[tuple(setting.items())] = self.value(setting)
                if values[tuple(setting.items())] > values[tuple(best.items())]:
                    best = setting
                    break
            else:
                return best, len(values) < budget


def described(setting):
    """Format a setting without zeros."""
    nonzero = {k: v for k, v in setting.items() if k not in ("solver", "adaptive") and v}
    return ", ".join(
        f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in nonzero.items()
    )
