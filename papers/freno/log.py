"""A time-ordered purchase log whose shoppers change their minds.

Rows are those of ``workloads.click_rows``: 20 numbers and 20 hashed categories, 2^20 features; the
items of a list resemble each other, as recommendations for one context do. The weights of day d + 1
are ``MEMORY`` times those of day d plus fresh noise that keeps their variance (an autoregression),
so that a model of today is a little wrong tomorrow; after 22 days half of it holds. Every feature
is scaled to 0 ... 1 within every list, as in the paper.
"""

from __future__ import annotations

import numpy as np
from benchmarks.common.workloads import (
    CLICK_FEATURES,
    BlockStream,
    click_rows,
    click_weights,
    purchases,
)

from rankine.data.dataset import concat
from rankine.transforms.scaling import Scaling

#: Correlation of a weight with itself a day later.
MEMORY = 0.97
#: Standard deviation of the weights of numbers and of categories; what no feature says is Gumbel
#: noise of scale 1.
NUMBER, CATEGORY = 0.25, 0.6
#: How much the items of a list have in common.
ALIKE = 0.5


class Log:
    """Days of one log, made when they are asked for and kept.

    Parameters
    ----------
    seed
        Of the shoppers and the lists.
    lists
        A day.
    days
        The last day that can be asked for; the first is 1.
    """

    n_features = CLICK_FEATURES

    def __init__(self, seed, lists, days):
        self.seed, self.lists, self.days = seed, lists, days
        self._known = {}
        self._weights = self._drift()

    def _drift(self):
        hashed, numbers = click_weights()
        truth = np.concatenate([numbers, hashed[len(numbers) :]])
        alive = np.flatnonzero(truth)
        rng = np.random.default_rng([20260105, self.seed])
        spread = np.where(alive < len(numbers), NUMBER, CATEGORY)
        value = spread * rng.normal(size=len(alive))
        for day in range(1, self.days + 1):
            yield day, alive, value
            new_values = np.sqrt(1 - MEMORY**2) * spread * rng.normal(size=len(alive))
            value = MEMORY * value + new_values

    def day(self, number):
        """Return the lists of a day."""
        while number not in self._known:
            self._make()
        return self._known[number]

    def _make(self):
        day, alive, value = next(self._weights)
        weights = np.zeros(CLICK_FEATURES)
        weights[alive] = value
        rng = np.random.default_rng([20260105, self.seed, day])
        qid, columns, numbers = click_rows(rng, self.lists, ALIKE)
        sure = weights[columns].sum(1) + numbers @ weights[: numbers.shape[1]]
        utility = sure + rng.gumbel(0, 1, len(qid))
        scaled = numbers_between_0_and_1(qid, numbers)
        data = purchases(qid + day * self.lists, columns, scaled, utility)
        self._known[day] = Scaling("query").apply(data)

    def between(self, first, last):
        """Return a stream of days ``first`` to ``last``, one block per day."""
        return Days([self.day(number) for number in range(first, last + 1)], self.n_features)


def numbers_between_0_and_1(qid, numbers):
    """Scale to (x - min) / (max - min) within each list."""
    starts = np.flatnonzero(np.diff(qid, prepend=-1))
    low = np.minimum.reduceat(numbers, starts)[qid]
    high = np.maximum.reduceat(numbers, starts)[qid]
    return (numbers - low) / np.where(high > low, high - low, 1.0)


class Days(BlockStream):
    """Blocks of lists in the order of time, as ``fit`` reads them."""

    feature_names = None

    def twice(self):
        """Return the same days, read twice."""
        return Days([*self.blocks, *self.blocks], self.n_features)

    def together(self):
        """Return all lists as one data set."""
        return concat(self.blocks)
