"""Normalise the scores of several retrievers within each list, by the rules of an engine.

    min_max          (x - min) / (max - min)        l2   x / sqrt(sum x^2)
    z_score          (x - mean) / deviation         reciprocal_rank   1 / (constant + rank)

Minimum, maximum, mean, standard deviation (n - 1) and rank refer to one retriever within one list.
``FusionRules`` define how an engine treats a document that a retriever did not return, the lowest
score, and scores that are all equal. The result of a missing score is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.specs import FUSION_RULES, FusionRules, RunScores


def run_score_values(
    spec: RunScores, scores: NDArray[np.float64], starts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return normalised scores, one column per retriever.

    ``scores`` has one row per document; list q has the rows starts[q]:starts[q + 1]. NaN means that
    the retriever did not return the document.
    """
    rules = FUSION_RULES[spec.engine]
    sizes = np.diff(starts)
    owner = np.repeat(np.arange(int((sizes > 0).sum())), sizes[sizes > 0])
    firsts = starts[:-1][sizes > 0]
    if len(owner) == 0:
        return np.zeros_like(scores)
    values = scores
    if rules.absent == "zero":
        values = np.where(np.isnan(scores), 0.0, scores)
    if spec.normalization == "reciprocal_rank":
        normalised = _reciprocal_ranks(values, owner, spec.rank_constant)
    elif spec.normalization == "min_max":
        normalised = _min_max(values, firsts, owner, rules)
    elif spec.normalization == "l2":
        normalised = _l2(values, firsts, owner)
    else:
        normalised = _z_score(values, firsts, owner, rules)
    return np.where(np.isnan(values), 0.0, normalised)


def _reciprocal_ranks(
    values: NDArray[np.float64], owner: NDArray[np.int64], constant: float
) -> NDArray[np.float64]:
    """Rank equal scores in the order of their rows, and missing ones (NaN) last."""
    out = np.empty_like(values)
    first = np.searchsorted(owner, owner)
    for j in range(values.shape[1]):
        order = np.lexsort((-values[:, j], owner))
        out[order, j] = 1.0 / (constant + 1.0 + np.arange(len(order)) - first)
    return out


def _min_max(
    values: NDArray[np.float64],
    firsts: NDArray[np.int64],
    owner: NDArray[np.int64],
    rules: FusionRules,
) -> NDArray[np.float64]:
    low, high = np.fmin.reduceat(values, firsts), np.fmax.reduceat(values, firsts)
    if rules.absent == "index":  # the rest of the index scores 0
        low, high = np.fmin(low, 0.0), np.fmax(high, 0.0)
    # Halves, so that the range of two huge numbers of opposite sign stays finite.
    low, span = low * 0.5, high * 0.5 - low * 0.5
    equal = span <= 0.5 * rules.tolerance
    with np.errstate(invalid="ignore"):
        normalised = (values * 0.5 - low[owner]) / np.where(equal, 1.0, span)[owner]
    normalised[normalised == 0.0] = rules.floor
    return np.where(equal[owner], _value_of_equal_scores(values, rules), normalised)


def _value_of_equal_scores(values: NDArray[np.float64], rules: FusionRules) -> Any:
    if rules.equal is None:
        return values
    return rules.equal


def _l2(
    values: NDArray[np.float64], firsts: NDArray[np.int64], owner: NDArray[np.int64]
) -> NDArray[np.float64]:
    # Scaled by the largest score, so that squares neither overflow nor vanish.
    size = np.fmax.reduceat(np.abs(values), firsts)
    largest = np.where(size > 0, size, 1.0)[owner]
    scaled = values / largest
    squares = np.add.reduceat(np.nan_to_num(scaled) ** 2, firsts)[owner]
    return scaled / np.sqrt(np.where(squares > 0, squares, 1.0))


def _z_score(
    values: NDArray[np.float64],
    firsts: NDArray[np.int64],
    owner: NDArray[np.int64],
    rules: FusionRules,
) -> NDArray[np.float64]:
    count = np.add.reduceat((~np.isnan(values)).astype(np.float64), firsts)
    mean = np.add.reduceat(np.nan_to_num(values), firsts) / np.maximum(count, 1.0)
    gap = values - mean[owner]
    squares = np.add.reduceat(np.nan_to_num(gap) ** 2, firsts)
    deviation = np.sqrt(squares / np.maximum(count - 1.0, 1.0))
    normalised = gap / np.where(deviation > 0, deviation, 1.0)[owner]
    normalised = np.where(normalised > 0, normalised, rules.floor)
    equal = np.fmin.reduceat(values, firsts) == np.fmax.reduceat(values, firsts)
    return np.where(equal[owner], _value_of_equal_scores(values, rules), normalised)
