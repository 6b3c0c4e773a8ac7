"""SPD on streams and in instalments.

In a stream every query owns a fixed range of steps, in proportion to its share of the objective
(one per query, or its number of pairs), taken when the query passes by. The range depends on the
data alone, so the result does not depend on how the stream is cut into blocks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError, ParameterError
from rankine.kernels.random import resolve_seed
from rankine.rankers.checks import count_passes
from rankine.rankers.query_weight import resolve_query_weight
from rankine.rankers.spd_parts import check_spd, make_phases, make_sampler
from rankine.samplers.draw import BY_LABELS, EXACT, WITH_TIES, StreamPairs
from rankine.samplers.pair_index import build_pair_index
from rankine.solvers.base import Progress, Solution, notify, require_finite
from rankine.solvers.pair_sgd import run_phase
from rankine.solvers.scaled_vector import ScaledVector, average_of, new_vector
from rankine.transforms.scaling import Scaling, fit_scaling

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.rankers.spd import SPDRanker

__all__ = ["fit_stream", "partial_fit_block", "query_shares"]


def query_shares(data: Dataset, sampling: str, *, ties: bool) -> NDArray[np.float64]:
    """Share of each query in the objective: 1, or its number of pairs; 0 without pairs."""
    if ties:
        sizes = data.queries.sizes.astype(np.float64)
        pairs = sizes * (sizes - 1) / 2
    else:
        pairs = data.labels.pair_counts.astype(np.float64)
    if sampling in ("uniform", "rejection"):
        return pairs
    return (pairs > 0).astype(np.float64)


def partial_fit_block(
    ranker: SPDRanker, X: Any, y: Any, qid: Any, group: Any, weight: Any, query_weight: Any
) -> None:
    """Take ``n_steps`` steps on these rows from where the last call ended."""
    check_spd(ranker)
    first = not hasattr(ranker, "_vector")
    data = ranker._dataset(X, y, qid, group, weight, reset=first)
    scaling: Scaling = fit_scaling(ranker.scale, data) if first else ranker.scaling_
    scaled = scaling.apply(data)
    scaled.labels.require_pairs()
    if first:
        ranker._vector = new_vector(np.zeros(data.n_features))
        ranker._seed = resolve_seed(ranker.random_state)
        ranker._average_from = ranker.n_steps // 2
        ranker.n_iter_ = 0
    started = time.perf_counter()
    sampler = make_sampler(ranker, scaled, resolve_query_weight(query_weight, data))
    w: ScaledVector = ranker._vector
    taken = ranker.n_iter_
    for phase in make_phases(ranker, taken, warm=False):
        counted = replace(
            phase, average_from=ranker._average_from if ranker.average else phase.stop
        )
        run_phase(scaled.rows, sampler, counted, w, ranker._seed, (phase.start, phase.stop))
    coef = average_of(w)
    require_finite(coef, taken + ranker.n_steps, "stochastic pairwise descent")
    solution = Solution(coef, float("nan"), {}, taken + ranker.n_steps, (), "max_iter")
    ranker._keep(solution, scaling, data, time.perf_counter() - started)


def _blocks(scan: Any, scaling: Scaling) -> Iterator[Dataset]:
    for block in scan:
        yield scaling.apply(block)


def _count(scan: Any, ranker: SPDRanker) -> tuple[float, dict[str, Any], int, Any]:
    """First pass: the total share, what was seen, the number of features, their names."""
    total, n_features = 0.0, 0
    seen = {"rows": 0, "queries": 0, "queries_used": 0, "pairs": 0}
    names = None
    for block in scan:
        shares = query_shares(block, ranker.sampling, ties=ranker.ties == "zero")
        total += float(shares.sum())
        seen["rows"] += block.n_rows
        seen["queries"] += block.n_queries
        seen["queries_used"] += int((shares > 0).sum())
        seen["pairs"] += block.labels.n_pairs
        n_features = max(n_features, block.n_features)
        names = block.feature_names
    return total, {**seen, "sources": list(getattr(scan, "sources", ()))}, n_features, names


def fit_stream(ranker: SPDRanker, scan: Any, callbacks: Sequence[Any]) -> None:
    """Count once, then learn in ``n_passes`` passes of the stream."""
    check_spd(ranker)
    n_passes = count_passes(ranker.n_passes)
    if ranker.scale not in ("none", "query"):
        raise ParameterError(
            f"scale={ranker.scale!r} must see all rows first and cannot be measured in a stream",
            fix="Use scale='query', or scale the file beforehand",
        )
    if iter(scan) is scan:
        raise ParameterError(
            "this stream can be read only once, and its queries must be counted first",
            fix="Pass rankine.scan(path), or call partial_fit on each block",
        )
    started = time.perf_counter()
    total, seen, n_features, names = _count(scan, ranker)
    if total <= 0:
        raise NoPairsError(
            "no query of the stream holds two different labels", fix="Check the labels"
        )
    w = new_vector(np.zeros(n_features))
    _learn(ranker, scan, total * n_passes, w, callbacks, n_passes)
    ranker.n_features_in_ = n_features
    ranker._set_names(names)
    coef = average_of(w)
    ranker.coef_ = coef
    ranker.n_iter_ = int(ranker.n_steps)
    ranker.solution_ = Solution(coef, float("nan"), {}, int(ranker.n_steps), (), "max_iter")
    ranker.scaling_ = Scaling(ranker.scale)
    ranker.training_ = {**seen, "seconds": round(time.perf_counter() - started, 3)}
    ranker.evals_ = []


def _learn(
    ranker: SPDRanker,
    scan: Any,
    total: float,
    w: ScaledVector,
    callbacks: Sequence[Any],
    n_passes: int,
) -> None:
    phases = make_phases(ranker, 0, warm=False)
    seed = resolve_seed(ranker.random_state)
    ties = ranker.ties == "zero"
    rule = BY_LABELS if ranker.sampling == "indexed" else WITH_TIES if ties else EXACT
    passed, done = 0.0, 0
    for _ in range(n_passes):
        for block in _blocks(scan, Scaling(ranker.scale)):
            shares = query_shares(block, ranker.sampling, ties=ties)
            passed_after = passed + np.cumsum(shares[shares > 0])
            if len(passed_after) == 0:
                continue
            # Whole shares summed exactly: the ranges do not depend on the blocks.
            ends = np.floor(ranker.n_steps * (passed_after / total)).astype(np.int64)
            passed = float(passed_after[-1])
            index = build_pair_index(block, np.ones(block.n_queries), by_pairs=False, ties=ties)
            sampler = StreamPairs(index, ends, rule)
            stop = int(ends[-1])
            for phase in phases:
                begin, end = max(done, phase.start), min(stop, phase.stop)
                if begin < end:
                    run_phase(block.rows, sampler, phase, w, seed, (begin, end))
            done = stop
            coef = average_of(w)
            require_finite(coef, done, "stochastic pairwise descent")
            if notify(
                callbacks, Progress("steps", done, ranker.n_steps, {}, lambda: average_of(w))
            ):
                return
