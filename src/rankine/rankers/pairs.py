"""Sampled pairs for any binary learner: Sculley's reduction (2009, algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError, ParameterError
from rankine.data.dataset import Dataset
from rankine.kernels.compile import jit
from rankine.kernels.random import random_bits, resolve_seed, stream_seed
from rankine.rankers.spd import SPDRanker
from rankine.rankers.spd_parts import check_spd, make_sampler
from rankine.samplers.draw import BY_LABELS, EXACT, StreamPairs, draw_pair
from rankine.samplers.pair_index import build_pair_index, query_shares

__all__ = ["PairBlock", "draw_span", "sample_pairs"]


class PairBlock(NamedTuple):
    """Sampled pairs: rows ``sign * (x_a - x_b)`` with a preferred, their sign and weight."""

    X: Any
    sign: NDArray[np.int8]
    weight: NDArray[np.float64]


def sample_pairs(
    data: Any,
    n: int,
    *,
    sampling: str = "query",
    random_state: Any = None,
    block: int = 8192,
    max_trials: int = 1_000_000,
) -> Iterator[PairBlock]:
    """Draw ``n`` pairs, in blocks, from a dataset or a stream.

    Any binary classifier with ``partial_fit`` becomes a ranker: its weights on these rows are
    ranking weights. Signs are random, so that both classes occur equally often.

    Parameters
    ----------
    data
        A ``Dataset``, or what ``rankine.scan`` returns (read twice: counted, then sampled).
    n
        Number of pairs.
    sampling
        As in ``SPDRanker``. Row weights of the data are sampling probabilities.

    Examples
    --------
    >>> import numpy as np, rankine
    >>> from sklearn.linear_model import SGDClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)); qid = np.repeat(np.arange(30), 10)
    >>> data = rankine.Dataset.from_arrays(X, X @ [2.0, -1.0] > 0, qid)
    >>> learner = SGDClassifier(fit_intercept=False, random_state=0)
    >>> for pairs in rankine.sample_pairs(data, 20_000, random_state=0):
    ...     _ = learner.partial_fit(pairs.X, pairs.sign, classes=[-1, 1])
    >>> bool(learner.coef_[0, 0] > 0 > learner.coef_[0, 1])
    True
    """
    if n < 0 or int(n) != n:
        raise ParameterError(f"n={n!r} must be a whole number of pairs", fix="Pass n >= 0")
    plan = SPDRanker(sampling=sampling, max_trials=max_trials)
    check_spd(plan)
    seed = np.uint64(resolve_seed(random_state))
    if isinstance(data, Dataset):
        data.labels.require_pairs()
        sampler = make_sampler(plan, data, np.ones(data.n_queries))
        yield from _drawn(data, sampler, seed, 0, int(n), block)
        return
    total = float(sum(_shares(part, sampling).sum() for part in data))
    if total <= 0:
        raise NoPairsError(
            "no query of the stream holds two different labels", fix="Check the labels"
        )
    passed, done = 0.0, 0
    for part in data:
        shares = _shares(part, sampling)
        reached = passed + np.cumsum(shares[shares > 0])
        if len(reached) == 0:
            continue
        ends = np.floor(n * (reached / total)).astype(np.int64)
        passed = float(reached[-1])
        index = build_pair_index(part, np.ones(part.n_queries))
        rule = BY_LABELS if sampling == "indexed" else EXACT
        yield from _drawn(part, StreamPairs(index, ends, rule), seed, done, int(ends[-1]), block)
        done = int(ends[-1])


def _shares(part: Dataset, sampling: str) -> NDArray[np.float64]:
    return query_shares(part, np.ones(part.n_queries), sampling=sampling, ties=False)


@jit
def draw_span(sampler: Any, seed: Any, start: int, first: Any, second: Any) -> bool:
    """Pairs number ``start`` and on of a seed: rows preferred and not; False when one fails."""
    for k in range(first.shape[0]):
        first[k], second[k], kind = draw_pair(sampler, random_bits(seed, start + k), start + k)
        if kind < 0.0:
            return False
    return True


def _drawn(
    data: Dataset, sampler: Any, seed: np.uint64, start: int, stop: int, block: int
) -> Iterator[PairBlock]:
    flips = stream_seed(int(seed), 1)
    for begin in range(start, stop, block):
        size = min(block, stop - begin)
        first, second = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        if not draw_span(sampler, seed, begin, first, second):
            raise NoPairsError(
                "no pair was found in the allowed trials", fix="Use sampling='query'"
            )
        bits = np.array([random_bits(flips, begin + k) for k in range(size)], dtype=np.uint64)
        swap = bits >> np.uint64(63) == 1
        left, right = np.where(swap, second, first), np.where(swap, first, second)
        sign = np.where(swap, -1, 1).astype(np.int8)
        yield PairBlock(data.X[left] - data.X[right], sign, np.ones(size))
