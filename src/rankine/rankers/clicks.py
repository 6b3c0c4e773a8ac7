"""Correction of clicks for the positions at which rows were shown."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.data.dataset import Dataset
from rankine.samplers.draw import pair_masses
from rankine.transforms.clicks import (
    ContextWeights,
    apply_position_weights,
    remove_position_weights,
)


class QueryDivisor(StrEnum):
    """What a ranker divides the loss of each query by."""

    NOTHING = "nothing"
    #: Weight of the pairs of rows with different labels.
    PAIRS = "pairs"
    #: Weight of all pairs of rows.
    PAIRS_AND_TIES = "pairs and ties"
    #: Weighted sum of the gains 2^(label - lowest label) - 1.
    GAINS = "gains"
    #: Weight of the rows.
    ROWS = "rows"
    SQUARED_ROWS = "squared rows"


class PositionCorrection(NamedTuple):
    """Weights and offsets that correct clicks for the positions of their rows.

    Attributes
    ----------
    position_weights
        Weight of a relevant row by position (and context); empty: 1 everywhere.
    n_positions
        Positions with an offset, which is learned with the weights; 0 for none.
    divisor
        What the ranker divides the loss of a query by. Position weights must not be divided out
        (a list's only click would lose its weight), so the query weighs more in return: in effect
        its loss is divided by what the divisor is without them.
    """

    position_weights: tuple[float, ...] | ContextWeights = ()
    n_positions: int = 0
    divisor: QueryDivisor = QueryDivisor.NOTHING

    @property
    def n_columns(self) -> int:
        """Number of columns that the offsets add."""
        return max(self.n_positions - 1, 0)

    @property
    def context(self) -> tuple[str, ...]:
        """Columns that the weights depend on in addition to the position."""
        if isinstance(self.position_weights, ContextWeights):
            return (self.position_weights.column,)
        return ()

    def apply(self, data: Dataset) -> Dataset:
        """Apply the weights of positions to the row weights."""
        return apply_position_weights(data, self.position_weights)

    def query_factors(self, weighted: Dataset) -> NDArray[np.float64]:
        """Return factors of the query weights for the rows that ``apply`` returned."""
        factors = np.ones(weighted.n_queries)
        if not self.position_weights or self.divisor == QueryDivisor.NOTHING:
            return factors
        divisors = query_divisors(self.divisor, weighted)
        unweighted = remove_position_weights(weighted, self.position_weights)
        divisors_before = query_divisors(self.divisor, unweighted)
        return np.divide(divisors, divisors_before, out=factors, where=divisors_before > 0)


def query_divisors(divisor: QueryDivisor, data: Dataset) -> NDArray[np.float64]:
    """Compute what the loss of each query is divided by."""
    if divisor in (QueryDivisor.PAIRS, QueryDivisor.PAIRS_AND_TIES):
        return pair_masses(data, ties=divisor == QueryDivisor.PAIRS_AND_TIES)
    index = data.queries
    weight: Any = data.weight
    if divisor == QueryDivisor.GAINS:
        # Only differences of labels count, so the lowest one of each list has gain 0.
        lowest = np.full(index.n_queries, np.inf)
        np.minimum.at(lowest, index.codes, data.y)
        weight = weight * (np.exp2(data.y - lowest[index.codes]) - 1.0)
    sums: Any = np.bincount(index.codes, weight, minlength=index.n_queries)
    if divisor == QueryDivisor.SQUARED_ROWS:
        sums = sums**2
    return np.asarray(sums, dtype=np.float64)
