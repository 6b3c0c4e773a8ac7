"""Resampling of queries: bootstrap means and random sign flips, from counted draws.

Draw number n of a seed is a pure function of both, so results do not depend on threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.random import random_below, random_bits, stream_seed
from rankine.kernels.shards import map_shards

__all__ = ["bootstrap_means", "flipped_sums", "percentile_interval"]

_BOOTSTRAP, _FLIPS = 1, 2
_SHARDS = 16


def bootstrap_means(
    values: NDArray[np.float64], n_resamples: int, seed: int
) -> NDArray[np.float64]:
    """Means of each column over queries drawn with replacement: n_resamples x columns.

    All columns share the drawn queries, so differences of means are paired.
    """
    rows = np.ascontiguousarray(values, dtype=np.float64)
    out = np.empty((n_resamples, rows.shape[1]))
    stream = stream_seed(seed, _BOOTSTRAP)
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
    stream = stream_seed(seed, _FLIPS)
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
