"""Define the tuning run that ``tune_kills`` kills."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import rankine
import rankine.tuning.run
from rankine.rankers.base import BaseRanker
from rankine.rankers.registry import Choice, Number
from rankine.solvers.base import Solution


class Means(BaseRanker):
    """A fast ranker with parameters to tune: weights are differences of means."""

    system = "means"
    search_space: ClassVar = {"power": Number(0.1, 10.0, log=True), "flip": Choice((False, True))}

    def __init__(
        self, power=1.0, flip=False, metric="map", scale="none", early_stopping=None,
        warm_start=False, random_state=None,
    ):  # fmt: skip
        self.power, self.flip = power, flip
        self.metric, self.scale, self.early_stopping = metric, scale, early_stopping
        self.warm_start, self.random_state = warm_start, random_state

    def _check(self):
        pass

    def _solve(self, task):
        return task.run(lambda *_: self._means(task.source.data))

    def _means(self, data):
        X, y = np.asarray(data.X), data.y
        coef = X[y > 0].mean(0) - X[y <= 0].mean(0)
        coef = np.sign(coef) * np.abs(coef) ** self.power
        return Solution(-coef if self.flip else coef, 0.0, {}, 1, [], "done")


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    y = (X @ [1.0, -0.5, 0.1, 0.0] + 0.3 * rng.normal(size=240) > 0.4).astype(int)
    return rankine.Dataset.from_arrays(X, y, np.repeat(np.arange(24), 10))


def tune(study, trials, on_progress=lambda done: None):
    """Tune; ``on_progress`` gets the number of finished trials."""
    return rankine.tune(
        problem(),
        ranker=Means(),
        metric="map",
        folds=3,
        trials=trials,
        study=study,
        progress=lambda done, total, best: on_progress(done),
    )
