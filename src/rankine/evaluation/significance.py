"""Two-sided tests of paired differences by resampling queries, and Holm's correction.

All tests take one difference of two systems per query; if all are zero, p is 1. Random number n of
a seed is a pure function of both, so results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.kernels.compile import jit
from rankine.kernels.random import BOOTSTRAP, SIGN_FLIPS, random_below, random_bits, stream_seed
from rankine.kernels.shards import map_shards

# Fixed, so that results do not depend on the number of threads.
_N_SHARDS = 16


def bootstrap_means(
    values: NDArray[np.float64], n_resamples: int, seed: int
) -> NDArray[np.float64]:
    """Return means of each column over queries drawn with replacement, n_resamples x columns.

    All columns share the drawn queries, so that differences of means are paired.
    """
    rows = np.ascontiguousarray(values, dtype=np.float64)
    out = np.empty((n_resamples, rows.shape[1]))
    stream = stream_seed(seed, BOOTSTRAP)
    # Each shard of resamples writes to rows of its own.
    _map_resamples(lambda a, b: _draw_means(rows, stream, a, b, out), n_resamples)
    return out


def percentile_interval(means: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """Return the percentile interval of bootstrap means."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def flipped_sums(
    difference: NDArray[np.float64], n_resamples: int, seed: int
) -> NDArray[np.float64]:
    """Return sums of the differences with random signs."""
    out = np.empty(n_resamples)
    stream = stream_seed(seed, SIGN_FLIPS)
    _map_resamples(lambda a, b: _flip_sums(difference, stream, a, b, out), n_resamples)
    return out


def _map_resamples(work: Any, n_resamples: int) -> None:
    map_shards(work, np.linspace(0, n_resamples, _N_SHARDS + 1).astype(np.int64))


@jit
def _draw_means(values: Any, seed: Any, first: int, last: int, out: Any) -> None:
    n, columns = values.shape
    sums = np.empty(columns)
    for b in range(first, last):
        sums[:] = 0.0
        for i in range(n):
            # The number of the draw is that of resample and query, whatever shard computes it.
            row = random_below(seed, b * n + i, n)
            for c in range(columns):
                sums[c] += values[row, c]
        for c in range(columns):
            out[b, c] = sums[c] / n


@jit
def _flip_sums(difference: Any, seed: Any, first: int, last: int, out: Any) -> None:
    n = difference.shape[0]
    n_words = (n + 63) // 64  # a random word has the signs of 64 differences
    low_bit = np.uint64(1)
    for b in range(first, last):
        total = 0.0
        for w in range(n_words):
            bits = random_bits(seed, b * n_words + w)
            for i in range(64 * w, min(64 * w + 64, n)):
                if bits & low_bit:
                    total += difference[i]
                else:
                    total -= difference[i]
                bits >>= low_bit
        out[b] = total


def check_confidence(confidence: float) -> None:
    """Raise for a confidence level outside (0, 1)."""
    if not 0 < confidence < 1:
        raise ParameterError(
            f"{confidence} is not between 0 and 1", fix="Use 0.95", parameter="confidence"
        )


def check_n_resamples(n_resamples: int) -> None:
    """Raise for too few bootstrap samples to read a quantile from."""
    if n_resamples < 100:
        raise ParameterError(
            f"{n_resamples} is less than 100", fix="Use 10000", parameter="n_resamples"
        )


class PairedTests(NamedTuple):
    """p-values of three tests.

    Attributes
    ----------
    t_test
        Student's paired t-test.
    randomisation
        Fisher's randomisation test: random signs of the differences.
    wilcoxon
        Wilcoxon's signed-rank test, without queries whose difference is zero.
    """

    t_test: float
    randomisation: float
    wilcoxon: float


def paired_tests(difference: NDArray[np.float64], n_resamples: int, seed: int) -> PairedTests:
    """Run all three tests for one pair of systems."""
    from scipy import stats

    nonzero = difference[difference != 0]
    if len(nonzero) == 0:
        return PairedTests(1.0, 1.0, 1.0)
    t_test = 0.0  # equal differences have no variance
    if np.ptp(difference) > 0:
        t_test = float(stats.ttest_1samp(difference, 0.0).pvalue)
    return PairedTests(
        t_test,
        randomisation_test(difference, n_resamples, seed),
        float(stats.wilcoxon(nonzero).pvalue),
    )


def randomisation_test(difference: NDArray[np.float64], n_resamples: int, seed: int) -> float:
    """Return the p-value of Fisher's randomisation test (Smucker, Allan and Carterette 2007).

    Under the null hypothesis each query's difference has either sign with equal probability. All
    2^n sign patterns are tried if they are at most ``n_resamples``. Otherwise ``n_resamples`` are
    drawn, and p = (1 + number as extreme) / (1 + number drawn).
    """
    nonzero = difference[difference != 0]
    # The tolerance allows for sums of the same numbers in another order.
    extreme = abs(float(nonzero.sum())) - 1e-12 * float(np.abs(nonzero).sum())
    if 2 ** len(nonzero) <= n_resamples:
        return float((np.abs(_sums_of_all_signs(nonzero)) >= extreme).mean())
    drawn = flipped_sums(nonzero, n_resamples, seed)
    return float((1 + np.count_nonzero(np.abs(drawn) >= extreme)) / (1 + n_resamples))


def _sums_of_all_signs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.array([0.0])
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values by Holm's method: the k-th smallest of m is multiplied by m - k + 1."""
    m = len(p_values)
    adjusted = [0.0] * m
    largest = 0.0
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        # An adjusted p-value is never smaller than that of a smaller p-value.
        largest = max(largest, min(1.0, (m - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
