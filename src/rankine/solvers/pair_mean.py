"""Exact mean pair loss of a scoring, by visiting every pair.

For losses and pair weights that have no O(m log m) form; O(pairs) time, threads over queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.shards import cut_by_weight, map_shards
from rankine.losses.pair import pair_loss

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["BY_LABELS", "BY_PAIRS", "BY_QUERIES", "mean_pair_loss"]

#: The mean over all pairs; over queries of their mean; over queries of the mean over label pairs.
BY_PAIRS, BY_QUERIES, BY_LABELS = 0, 1, 2


@jit
def _block_sums(loss: Any, scores: Any, weights: Any, upper: Any, lower: Any) -> Any:
    """Weighted loss and weight of all pairs of two levels, given as position ranges."""
    total, mass = 0.0, 0.0
    for p in range(upper[0], upper[1]):
        row_total, row_mass = 0.0, 0.0
        for q in range(lower[0], lower[1]):
            row_total += weights[q] * pair_loss(loss, scores[p] - scores[q])[0]
            row_mass += weights[q]
        total += weights[p] * row_total
        mass += weights[p] * row_mass
    return total, mass


@jit
def _query_sums(
    loss: Any, scores: Any, weights: Any, level_starts: Any, first: int, last: int, by_labels: bool
) -> Any:
    """Loss and mass of the levels first..last of one query; each label pair weighs 1 if asked."""
    total, mass = 0.0, 0.0
    for high in range(first + 1, last):
        for low in range(first, high):
            upper = (level_starts[high], level_starts[high + 1])
            lower = (level_starts[low], level_starts[low + 1])
            part, part_mass = _block_sums(loss, scores, weights, upper, lower)
            if by_labels and part_mass > 0.0:
                part, part_mass = part / part_mass, 1.0
            total += part
            mass += part_mass
    return total, mass


@jit
def _span_sums(
    loss: Any,
    scores: Any,
    weights: Any,
    starts: Any,
    ptr: Any,
    by_labels: bool,
    span: Any,
    out: Any,
) -> None:
    for q in range(span[0], span[1]):
        total, mass = _query_sums(loss, scores, weights, starts, ptr[q], ptr[q + 1], by_labels)
        out[q, 0] = total
        out[q, 1] = mass


def mean_pair_loss(
    loss: Any,
    data: Dataset,
    scores: NDArray[np.float64],
    query_weight: NDArray[np.float64],
    mean: int,
    threads: int | None = None,
) -> float:
    """Weighted mean of ``pair_loss(loss, s_a - s_b)`` over the pairs of a dataset."""
    index = data.labels
    ordered = scores[index.order]
    weights = np.ones(data.n_rows) if data.weight is None else data.weight[index.order]
    sums = np.zeros((data.n_queries, 2))
    starts, ptr = index.level_starts, index.level_ptr
    cuts = cut_by_weight(np.concatenate([[0], np.cumsum(index.pair_counts)]))

    def visit(first: int, last: int) -> None:
        _span_sums(loss, ordered, weights, starts, ptr, mean == BY_LABELS, (first, last), sums)

    map_shards(visit, cuts, threads)
    mass = sums[:, 1]
    used = mass > 0
    if mean == BY_PAIRS:
        return float((query_weight * sums[:, 0]).sum() / (query_weight * mass).sum())
    share = query_weight[used]
    return float((share * (sums[used, 0] / mass[used])).sum() / share.sum())
