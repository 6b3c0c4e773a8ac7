"""Pairs as rows: a sample for any binary classifier (Sculley 2009, algorithm 1), or all pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_choice
from rankine.core.errors import NoPairsError, ParameterError
from rankine.data.dataset import Dataset
from rankine.kernels.compile import jit
from rankine.kernels.random import PAIR_SIGNS, random_bits, resolve_seed, stream_seed
from rankine.samplers.draw import SAMPLINGS, draw_pair, pair_sampler, query_shares, stream_spans


class PairBlock(NamedTuple):
    """Sampled pairs: rows ``sign * (x_a - x_b)``, where a is preferred, their sign and weight."""

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

    A binary classifier with ``partial_fit`` that is trained on these rows is a ranker: its weights
    are ranking weights. Signs are random, so that both classes are equally frequent.

    Parameters
    ----------
    data
        A ``Dataset``, or the stream that ``rankine.scan`` returns. A stream is read twice: to count
        its pairs and to sample them.
    n
        Number of pairs.
    sampling
        As in ``SPDRanker``. Pairs are drawn in proportion to the row weights of the data.
    random_state
        Seed, for the same pairs in every run.
    block
        Largest number of pairs per block.
    max_trials
        For ``"rejection"``: draws without a pair after which an error is raised.

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
        raise ParameterError(
            f"{n!r} is not a number of pairs", parameter="n", fix="Pass an integer >= 0"
        )
    check_choice("sampling", sampling, SAMPLINGS)
    seed = np.uint64(resolve_seed(random_state))
    if isinstance(data, Dataset):
        data.labels.require_pairs()
        sampler = pair_sampler(
            data, np.ones(data.n_queries), sampling=sampling, max_trials=max_trials
        )
        yield from _draw_blocks(data, sampler, seed, 0, int(n), block)
        return
    # First pass: the weight of all pairs, which says how many of them each block gets.
    total = 0.0
    for part, query_weight in _with_equal_weights(data):
        shares = query_shares(part, query_weight, sampling=sampling, ties=False)
        total = float(np.cumsum(np.concatenate([[total], shares]))[-1])
    if total <= 0:
        raise NoPairsError(
            "no query of the stream has two different labels", fix="Check the labels"
        )
    start = 0
    spans = stream_spans(lambda: _with_equal_weights(data), total, n, sampling=sampling)
    for part, sampler, stop in spans:
        yield from _draw_blocks(part, sampler, seed, start, stop, block)
        start = stop


def _with_equal_weights(data: Any) -> Iterator[tuple[Dataset, NDArray[np.float64]]]:
    """Yield the blocks of a stream with query weights of 1."""
    for part in data:
        yield part, np.ones(part.n_queries)


@jit
def draw_span(sampler: Any, seed: Any, start: int, first: Any, second: Any) -> bool:
    """Draw a pair for each step from ``start`` on; return False if a step finds none.

    Writes the preferred rows to ``first`` and the others to ``second``.
    """
    for k in range(first.shape[0]):
        first[k], second[k], t = draw_pair(sampler, random_bits(seed, start + k), start + k)
        if t < 0.0:
            return False
    return True


def _draw_blocks(
    data: Dataset, sampler: Any, seed: np.uint64, start: int, stop: int, block: int
) -> Iterator[PairBlock]:
    flips = stream_seed(int(seed), PAIR_SIGNS)
    for begin in range(start, stop, block):
        size = min(block, stop - begin)
        first, second = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        if not draw_span(sampler, seed, begin, first, second):
            raise NoPairsError(
                "no pair was found in the allowed number of trials",
                parameter="max_trials",
                fix="Set sampling to 'query'",
            )
        # The sign of pair k depends on k alone, so that blocks of any size give the same signs.
        bits = np.array([random_bits(flips, begin + k) for k in range(size)], dtype=np.uint64)
        swap = bits >> np.uint64(63) == 1
        first, second = np.where(swap, second, first), np.where(swap, first, second)
        sign = np.where(swap, -1, 1).astype(np.int8)
        yield PairBlock(data.X[first] - data.X[second], sign, np.ones(size))


def pair_rows(
    data: Dataset, limit: int, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
    """Return the better and the worse row of each pair, and whether these are all pairs.

    Of more than ``limit`` pairs, ``limit`` are drawn, each pair with the same probability.
    """
    data.labels.require_pairs()
    if data.labels.n_pairs <= limit:
        return (*_all_pairs(data), True)
    # Every pair has the same chance here, whatever its rows weigh in training.
    unweighted = replace(data, weight=None, query_index=data.queries)
    sampler = pair_sampler(unweighted, np.ones(data.n_queries), sampling="uniform")
    first, second = np.empty(limit, dtype=np.int64), np.empty(limit, dtype=np.int64)
    draw_span(sampler, np.uint64(seed), 0, first, second)
    return first, second, False


def _all_pairs(data: Dataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    index = data.labels
    better = np.empty(index.n_pairs, dtype=np.int64)
    worse = np.empty(index.n_pairs, dtype=np.int64)
    _fill(index.order, index.query_starts, index.level_ptr, index.level_starts, better, worse)
    return better, worse


@jit
def _fill(
    order: Any, query_starts: Any, level_ptr: Any, level_starts: Any, better: Any, worse: Any
) -> None:
    """List all pairs: a row of a level is better than the rows of its query before the level."""
    k = 0
    for q in range(query_starts.shape[0] - 1):
        for level in range(level_ptr[q], level_ptr[q + 1]):
            for i in range(level_starts[level], level_starts[level + 1]):
                for j in range(query_starts[q], level_starts[level]):
                    better[k] = order[i]
                    worse[k] = order[j]
                    k += 1
