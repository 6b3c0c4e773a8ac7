"""Diversity and exposure of the groups of items (brand, category) that a column ``by`` names.

    coverage@k       = groups among the first k ranks / min(k, groups of the list)
    ild@k            = share of the pairs of the first k ranks whose groups differ
    alpha-DCG@k      = sum over relevant ranks r <= k of discount(r) (1 - alpha)^(relevant items of
                       the same group above r)
    alpha-NDCG@k     = alpha-DCG@k divided by that of the best order
    exposure-ratio@k = smallest / largest mean exposure of a group of the list

``ild`` is the intra-list distance (Ziegler et al. 2005) with distance 1 between groups. alpha-NDCG
is that of Clarke et al. 2008 with one nugget per item, so that the greedy ideal order is exact. The
exposure of an item is discount(r) at ranks r <= k, else 0, and tied items share their ranks'
(Singh and Joachims 2018).

An item without a value covers no group, differs from every item, and is in no ratio.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.sorting import top_values
from rankine.metrics.families import list_expected, list_value
from rankine.metrics.gains import discounts
from rankine.metrics.metric import Definition, Metric, register


class Coverage(NamedTuple):
    """Groups among the first ranks."""


class IntraListDistance(NamedTuple):
    """Pairs of different groups among the first ranks."""


class AlphaNdcg(NamedTuple):
    """Relevant items, of which each makes the next ones of its group worth ``remaining`` times."""

    discount: NDArray[np.float64]
    remaining: float


class ExposureRatio(NamedTuple):
    """Exposure of the least exposed group relative to the most exposed one."""

    discount: NDArray[np.float64]


@jit
def _run_ends(groups: Any) -> Any:
    """Return the sorted groups, without items of no group, and the end of each run of equals."""
    ordered = np.sort(groups)
    # Groups are numbered from 1; 0 is an item without a value, or one that was not displayed.
    ordered = ordered[np.searchsorted(ordered, 0.5) :]
    ends = np.empty(ordered.shape[0], dtype=np.int64)
    n_runs = 0
    for i in range(ordered.shape[0]):
        if i + 1 == ordered.shape[0] or ordered[i + 1] != ordered[i]:
            ends[n_runs] = i + 1
            n_runs += 1
    return ordered, ends[:n_runs]


@jit
def _count(groups: Any, group: float) -> float:
    count = 0.0
    for value in groups:
        count += value == group
    return count


@jit
def _cut_block(ends: Any, n_ranks: int) -> int:
    """Return the start of the block of tied items that contains the last of the first ranks."""
    start = 0
    while start < n_ranks and ends[start] < n_ranks:
        start = ends[start]
    return start


@jit
def _coverage(ranked: Any, start: int, gain: Any, k: int) -> float:
    """Cover groups by ``ranked[:start]`` and by as many random items of the others as are left."""
    n_ranks = min(k, ranked.shape[0])
    covered = float(_run_ends(ranked[:start])[1].shape[0])
    tied, ends = _run_ends(ranked[start:])
    size, n_drawn = ranked.shape[0] - start, n_ranks - start
    first = 0
    for end in ends:
        if _count(ranked[:start], tied[first]) == 0.0:
            # Without replacement, all drawn items are among the size - m items of other groups.
            missed = 1.0
            for i in range(n_drawn):
                missed *= max(size - (end - first) - i, 0) / (size - i)
            covered += 1.0 - missed
        first = end
    n_groups = _run_ends(gain)[1].shape[0]
    # k ranks cannot show more than k groups.
    return covered / min(k, n_groups)


@list_value.implementation(Coverage)
def _coverage_value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _coverage(ranked, min(k, ranked.shape[0]), gain, k)


@list_expected.implementation(Coverage)
def _expected_coverage(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _coverage(ranked, _cut_block(ends, min(k, ranked.shape[0])), gain, k)


@jit
def _distance(ranked: Any, start: int, k: int) -> float:
    """Compare ``ranked[:start]`` and as many random items of the others as are left."""
    n_ranks = min(k, ranked.shape[0])
    if n_ranks < 2:
        return np.nan
    size, n_drawn = ranked.shape[0] - start, n_ranks - start
    # Chances that a tied item, and that two given tied items, are among the drawn ones.
    share = pair_share = 0.0
    if size > 0:
        share = n_drawn / size
    if size > 1:
        pair_share = share * (n_drawn - 1.0) / (size - 1.0)
    # Expected number of pairs of equal groups: both above the tied block, one in it, or both.
    n_equal = 0.0
    groups, ends = _run_ends(ranked)
    first = 0
    for end in ends:
        n_above = _count(ranked[:start], groups[first])
        n_tied = end - first - n_above
        n_equal += 0.5 * n_above * (n_above - 1.0) + n_above * n_tied * share
        n_equal += 0.5 * n_tied * (n_tied - 1.0) * pair_share
        first = end
    return 1.0 - n_equal / (0.5 * n_ranks * (n_ranks - 1.0))


@list_value.implementation(IntraListDistance)
def _distance_value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    n_ranks = min(k, ranked.shape[0])
    return _distance(ranked[:n_ranks], n_ranks, k)


@list_expected.implementation(IntraListDistance)
def _expected_distance(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    return _distance(ranked, _cut_block(ends, min(k, ranked.shape[0])), k)


@jit
def _best_alpha_dcg(spec: Any, gain: Any, k: int) -> float:
    """Order the items by what they are still worth: the first of each group, the second, ..."""
    groups, ends = _run_ends(gain)
    worth = np.empty(groups.shape[0])
    first = 0
    for end in ends:
        for i in range(first, end):
            worth[i] = spec.remaining ** (i - first)
        first = end
    worth = top_values(worth, k)
    total = 0.0
    for r in range(worth.shape[0]):
        total += spec.discount[r] * worth[r]
    return total


@list_value.implementation(AlphaNdcg)
def _alpha_ndcg(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    total = 0.0
    for r in range(min(k, ranked.shape[0])):
        if ranked[r] > 0.0:
            total += spec.discount[r] * spec.remaining ** _count(ranked[:r], ranked[r])
    return total / _best_alpha_dcg(spec, gain, k)


@jit
def _mean_powers(x: float, n_marked: int, n_items: int, largest: int) -> Any:
    """Compute mean[j], the mean of x^(marked items) over all subsets of j <= ``largest`` items.

    Adding marked item i to i - 1 others: mean_i[j] = (j/i) x mean[j - 1] + (1 - j/i) mean[j].
    """
    mean = np.ones(largest + 1)
    # Subsets of the other items have no marked one, so their mean is 1 for every j.
    for i in range(n_items - n_marked + 1, n_items + 1):
        # Downwards: mean[j - 1] must still be the mean over i - 1 items.
        for j in range(min(i, largest), 0, -1):
            share = j / i
            mean[j] = share * x * mean[j - 1] + (1.0 - share) * mean[j]
    return mean


@list_expected.implementation(AlphaNdcg)
def _expected_alpha_ndcg(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    """Average over the orders of tied items, block by block and group by group."""
    total = 0.0
    start = 0
    while start < min(k, ranked.shape[0]):
        stop = ends[start]
        size, n_counted = stop - start, min(k, stop) - start
        groups, run_ends = _run_ends(ranked[start:stop])
        first = 0
        for end in run_ends:
            n_tied = end - first
            # An item of the group is at a rank of the block with probability n_tied / size, after
            # the items of the group above the block and r random other items of the block.
            above = spec.remaining ** _count(ranked[:start], groups[first])
            powers = _mean_powers(spec.remaining, n_tied - 1, size - 1, n_counted - 1)
            for r in range(n_counted):
                total += spec.discount[start + r] * n_tied / size * above * powers[r]
            first = end
        start = stop
    return total / _best_alpha_dcg(spec, gain, k)


@jit
def _exposure_ratio(exposure: Any, ranked: Any, gain: Any) -> float:
    """Compare the mean exposures of the groups of ``gain``; ranked items have ``exposure``."""
    groups, ends = _run_ends(gain)
    if ends.shape[0] < 2:
        return np.nan
    smallest, largest = np.inf, 0.0
    first = 0
    for end in ends:
        total = 0.0
        for r in range(exposure.shape[0]):
            if ranked[r] == groups[first]:
                total += exposure[r]
        # The mean over all items of the group: those below the cutoff have no exposure.
        smallest = min(smallest, total / (end - first))
        largest = max(largest, total / (end - first))
        first = end
    if largest == 0.0:
        return np.nan
    return smallest / largest


@list_value.implementation(ExposureRatio)
def _exposure_ratio_value(spec: Any, ranked: Any, gain: Any, k: Any) -> Any:
    return _exposure_ratio(spec.discount[: min(k, ranked.shape[0])], ranked, gain)


@list_expected.implementation(ExposureRatio)
def _expected_exposure_ratio(spec: Any, ranked: Any, ends: Any, gain: Any, k: Any) -> Any:
    exposure = np.zeros(ranked.shape[0])
    start = 0
    while start < min(k, ranked.shape[0]):
        end = ends[start]
        exposure[start:end] = spec.discount[start : min(k, end)].sum() / (end - start)
        start = end
    return _exposure_ratio(exposure, ranked, gain)


def _discount(metric: Metric, longest: int) -> NDArray[np.float64]:
    return discounts(str(metric.discount), longest)


#: Ties have no worst order: one order covers most groups, and another has most relevant items.
_TIES = {"ties": ("file", "docid", "expected")}

register(
    Definition(
        "coverage",
        "Coverage",
        "ranks",
        lambda _metric, _longest: Coverage(),
        summary="Groups (by=COLUMN) among the first k ranks, of those that could be there.",
        items="group",
        cutoff="required",
        defaults={"by": None, "no_relevant": "skip"},
        choices=_TIES,
    ),
    Definition(
        "ild",
        "ILD",
        "ranks",
        lambda _metric, _longest: IntraListDistance(),
        summary="Share of the pairs of the first k ranks whose groups (by=COLUMN) differ.",
        aliases=("intra-list-distance",),
        items="group",
        defaults={"by": None, "no_relevant": "skip"},
        choices=_TIES,
    ),
    Definition(
        "alpha-ndcg",
        "alpha-NDCG",
        "ranks",
        lambda metric, longest: AlphaNdcg(
            _discount(metric, longest), 1.0 - float(metric.alpha or 0.0)
        ),
        summary="NDCG of relevant items, each worth less after others of its group (by=COLUMN).",
        items="relevant group",
        defaults={"by": None, "alpha": 0.5, "threshold": 1.0, "discount": "std"},
        choices=_TIES,
    ),
    Definition(
        "exposure-ratio",
        "Exposure ratio",
        "ranks",
        lambda metric, longest: ExposureRatio(_discount(metric, longest)),
        summary="Exposure of the least exposed group (by=COLUMN) relative to the most exposed.",
        items="group",
        defaults={"by": None, "discount": "std", "no_relevant": "skip"},
        choices=_TIES,
    ),
)
