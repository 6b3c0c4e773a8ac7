"""ElasticRank on streams and in instalments."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.errors import (
    CheckpointError,
    FeatureMismatchError,
    NoPairsError,
    ParameterError,
)
from rankine.data.dataset import Dataset
from rankine.rankers.base import plain_parameters, resolve_seed
from rankine.rankers.checks import count_passes
from rankine.rankers.monitor import Monitor
from rankine.rankers.query_weight import resolve_query_weight
from rankine.solvers.checkpoint import CheckpointFolder
from rankine.solvers.one_pass_run import OnePassRun
from rankine.solvers.progressive import Progressive
from rankine.transforms.scaling import Scaling

if TYPE_CHECKING:
    from rankine.rankers.elastic import ElasticRanker
    from rankine.solvers.base import Callback

__all__ = ["fit_stream", "learn_more"]


def learn_more(ranker: ElasticRanker, data: Dataset, query_weight: Any) -> None:
    """Learn from the lists of a block, in order, from where the last call ended."""
    started = time.perf_counter()
    scaling = stream_scaling(ranker.scale)
    if not hasattr(ranker, "_learner"):
        seed = resolve_seed(ranker.random_state)
        ranker._learner = ranker._new_learner(data.n_features, seed, None)
        ranker._progressive = Progressive(ranker.metric)
        ranker._rows_seen = 0
    run = OnePassRun(ranker._learner, ranker._progressive, rows_seen=ranker._rows_seen)
    weight = None if query_weight is None else resolve_query_weight(query_weight, data)
    run.learn_block(scaling.apply(data), np.arange(data.n_queries), weight)
    _keep(ranker, run, "partial", scaling, data.sources, time.perf_counter() - started)


def fit_stream(
    ranker: ElasticRanker,
    scan: Any,
    valid: tuple[Any, Any] | None,
    coef_init: Any,
    callbacks: Sequence[Callback],
    checkpoint: str | None,
    every: int,
    resume: bool,
) -> None:
    """Learn from ``n_passes`` readings of a stream."""
    started = time.perf_counter()
    n_passes = count_passes(ranker.n_passes)
    if n_passes > 1 and iter(scan) is scan:
        raise ParameterError("this stream can be read only once", fix="Pass rankine.scan(path)")
    scaling = stream_scaling(ranker.scale)
    folder = None if checkpoint is None else CheckpointFolder(Path(checkpoint), every)
    if resume and folder is None:
        raise CheckpointError("nothing to resume from", fix="Pass the folder as checkpoint=")
    n_features = int(scan.n_features)
    names = getattr(scan, "feature_names", None)
    ranker.n_features_in_ = n_features
    ranker._set_names(names)
    seed = int(folder.latest().facts["seed"]) if resume and folder else None
    if seed is None:
        seed = resolve_seed(ranker.random_state)
    start, offset = _start(ranker, coef_init, scaling, n_features)
    monitor = _monitor(ranker, valid, scaling)
    run = OnePassRun(
        ranker._new_learner(n_features, seed, start, offset),
        Progressive(ranker.metric),
        shuffle_buffer=int(ranker.shuffle_buffer),
        callbacks=tuple(callbacks) if monitor is None else (monitor, *callbacks),
        checkpoints=folder,
        facts=_facts(ranker, scan, n_features, seed, start),
    )
    if resume:
        run.resume()
    reason = run.run(lambda: _blocks(scan, scaling), n_passes)
    if run.learner.lists_used == 0:
        raise NoPairsError(
            "no list of the stream holds two different labels", fix="Check the labels"
        )
    sources = tuple(getattr(scan, "sources", ()))
    _keep(ranker, run, reason, scaling, sources, time.perf_counter() - started)
    ranker.evals_ = [] if monitor is None else monitor.trace
    if monitor is not None and ranker.early_stopping and monitor.best_coef is not None:
        ranker.coef_ = monitor.best_coef


def _start(ranker: ElasticRanker, given: Any, scaling: Scaling, n_features: int) -> Any:
    """Weights to start from and the steps they have seen; a model of ours remembers its steps."""
    from rankine.model import LinearModel

    if not isinstance(given, LinearModel):
        start = ranker._start(given, scaling, n_features)
        steps = getattr(ranker, "n_iter_", 0) if given is None and start is not None else 0
        return start, int(steps)
    if given.n_features != n_features:
        raise FeatureMismatchError(
            f"the model to start from has {given.n_features} features, the stream {n_features}",
            fix=f"Scan with n_features={given.n_features}",
        )
    ours = given.parameters.get("ranker") == ranker._system
    return given.to_dense(), int(given.provenance.get("n_iter", 0)) if ours else 0


def stream_scaling(scale: str) -> Scaling:
    """Scalings that need not see all rows first."""
    if scale not in ("none", "query"):
        raise ParameterError(
            f"scale={scale!r} must see all rows first and cannot be measured in a stream",
            fix="Use scale='query', or scale the file beforehand",
        )
    return Scaling(scale)


def _blocks(scan: Any, scaling: Scaling) -> Iterator[Dataset]:
    blocks = scan.blocks() if isinstance(scan, Dataset) else scan
    for block in blocks:
        yield scaling.apply(block)


def _monitor(
    ranker: ElasticRanker, valid: tuple[Any, Any] | None, scaling: Scaling
) -> Monitor | None:
    if valid is None:
        return None
    data = ranker._eval_data(*valid)
    return (
        None if data is None else Monitor(ranker.metric, scaling.apply(data), ranker.early_stopping)
    )


def _facts(
    ranker: ElasticRanker, scan: Any, n_features: int, seed: int, start: Any
) -> dict[str, Any]:
    """What a resumed run must share with the one that was interrupted."""
    parameters = plain_parameters(ranker)
    for name in ("random_state", "warm_start"):
        parameters.pop(name, None)
    sources = [
        [name, Path(name).stat().st_size if Path(name).is_file() else None]
        for name in getattr(scan, "sources", ())
    ]
    return {
        "parameters": parameters,
        "sources": sources,
        "n_features": n_features,
        "seed": seed,
        "start": None if start is None else np.float64(start.sum()).hex(),
    }


def _keep(
    ranker: ElasticRanker,
    run: OnePassRun,
    reason: str,
    scaling: Scaling,
    sources: Sequence[str],
    seconds: float,
) -> None:
    solution = ranker._solution(run, reason)
    ranker.coef_ = solution.coef
    ranker.n_iter_ = solution.n_iter
    ranker.solution_ = solution
    ranker.scaling_ = scaling
    ranker.training_ = {
        "rows": run.rows_seen,
        "queries": run.learner.lists_seen,
        "queries_used": run.learner.lists_used,
        "sources": list(sources),
        "seconds": round(seconds, 3),
    }
