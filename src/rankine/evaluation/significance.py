"""Tests of paired differences, two-sided, by resampling queries; the correction for many of them.

All tests take the differences of two systems, one per query; without any difference p is 1. Draw
number n of a seed is a pure function of both, so results do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.random import BOOTSTRAP, SIGN_FLIPS, random_below, random_bits, stream_seed
from rankine.kernels.shards import map_shards

_SHARDS = 16


def bootstrap_means(
    values: NDArray[np.float64], n_resamples: int, seed: int
) -> NDArray[np.float64]:
    """Means of each column over queries drawn with replacement: n_resamples x columns.

    All columns share the drawn queries, so differences of means are paired.
    """
    rows = np.ascontiguousarray(values, dtype=np.float64)
    out = np.empty((n_resamples, rows.shape[1]))
    stream = stream_seed(seed, BOOTSTRAP)
    _over_resamples(lambda a, b: _draw_means(rows, stream, a, b, out), n_resamples)
    return out


def percentile_interval(means: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """Percentile interval of bootstrap means."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def flipped_sums(
    difference: NDArray[np.float64], n_resamples: int, seed: int
) -> NDArray[np.float64]:
    """Sums of differences whose signs are flipped at random."""
    out = np.empty(n_resamples)
    stream = stream_seed(seed, SIGN_FLIPS)
    _over_resamples(lambda a, b: _flip_sums(difference, stream, a, b, out), n_resamples)
    return out


def _over_resamples(work: Any, n_resamples: int) -> None:
    map_shards(work, np.linspace(0, n_resamples, _SHARDS + 1).astype(np.int64))


@jit
def _draw_means(values: Any, seed: Any, first: int, last: int, out: Any) -> None:
    n, columns = values.shape
    sums = np.empty(columns)
    for b in range(first, last):
        sums[:] = 0.0
        for i in range(n):
            row = random_below(seed, b * n + i, n)
            for c in range(columns):
                sums[c] += values[row, c]
        for c in range(columns):
            out[b, c] = sums[c] / n


@jit
def _flip_sums(difference: Any, seed: Any, first: int, last: int, out: Any) -> None:
    n = difference.shape[0]
    words = (n + 63) // 64
    one = np.uint64(1)
    for b in range(first, last):
        total = 0.0
        for w in range(words):
            bits = random_bits(seed, b * words + w)
            for i in range(64 * w, min(64 * w + 64, n)):
                if bits & one:
                    total += difference[i]
                else:
                    total -= difference[i]
                bits >>= one
        out[b] = total


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
    # sums of the same numbers in another order differ in the last bits
    extreme = abs(float(moved.sum())) - 1e-12 * float(np.abs(moved).sum())
    if 2 ** len(moved) <= n_resamples:
        return float((np.abs(_all_sums(moved)) >= extreme).mean())
    drawn = flipped_sums(moved, n_resamples, seed)
    return float((1 + np.count_nonzero(np.abs(drawn) >= extreme)) / (1 + n_resamples))


def _all_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.array([0.0])
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
