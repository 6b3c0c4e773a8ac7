"""Tests of paired differences, two-sided, and the correction for many of them.

All take the differences of two systems, one per query. Without any difference p is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.evaluation.resampling import flipped_sums

__all__ = ["PairedTests", "holm", "paired_tests", "randomisation_test"]


class PairedTests(NamedTuple):
    """p-values of three tests.

    ``t_test``: Student's paired t. ``randomisation``: Fisher's, by sign flips of the mean
    difference. ``wilcoxon``: signed ranks, queries without difference left out.
    """

    t_test: float
    randomisation: float
    wilcoxon: float


def paired_tests(difference: NDArray[np.float64], n_resamples: int, seed: int) -> PairedTests:
    """All three tests of one pair of systems."""
    from scipy import stats

    moved = difference[difference != 0]
    if len(moved) == 0:
        return PairedTests(1.0, 1.0, 1.0)
    constant = np.ptp(difference) == 0
    return PairedTests(
        0.0 if constant else float(stats.ttest_1samp(difference, 0.0).pvalue),
        randomisation_test(difference, n_resamples, seed),
        float(stats.wilcoxon(moved).pvalue),
    )


def randomisation_test(difference: NDArray[np.float64], n_resamples: int, seed: int) -> float:
    """Fisher's randomisation test of a zero mean (Smucker, Allan and Carterette 2007).

    Under the null hypothesis each query's difference has either sign with equal probability. All
    2^n sign patterns are tried when they are at most ``n_resamples``; otherwise that many are
    drawn, and p = (1 + as extreme) / (1 + drawn).
    """
    moved = difference[difference != 0]
    if len(moved) == 0:
        return 1.0
    # sums of the same numbers in another order differ in the last bits
    extreme = abs(float(moved.sum())) - 1e-12 * float(np.abs(moved).sum())
    if 2 ** len(moved) <= n_resamples:
        return float((np.abs(_all_sums(moved)) >= extreme).mean())
    drawn = flipped_sums(moved, n_resamples, seed)
    return float((1 + np.count_nonzero(np.abs(drawn) >= extreme)) / (1 + n_resamples))


def _all_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: the k-th smallest of m is multiplied by m - k + 1."""
    m = len(p_values)
    adjusted = [0.0] * m
    largest = 0.0
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (m - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
