"""The l1 path of domination rank, from the empty model down."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset, row_scores
from rankine.rankers.plain import plain_parameters
from rankine.rankers.regularization_path import RegularizationPath
from rankine.solvers.base import Callback, Progress, notify
from rankine.solvers.coordinate_descent import PathPoint, l1_grid, points_within, walk

if TYPE_CHECKING:
    from rankine.rankers.base import Job, Prepared
    from rankine.rankers.domination import DominationRanker
    from rankine.solvers.coordinate_descent import CoordinateDescent, DescentSettings

__all__ = ["best_within", "domination_path", "path_of"]


def domination_path(
    X: Any,
    y: ArrayLike | None = None,
    qid: ArrayLike | None = None,
    *,
    l1s: Sequence[float] | None = None,
    n_steps: int = 30,
    min_ratio: float = 0.01,
    max_nonzero: int | None = None,
    eval_set: Any = None,
    eval_qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    query_weight: Any = None,
    callbacks: Sequence[Callback] = (),
    **parameters: Any,
) -> RegularizationPath:
    """Solutions of domination rank for a falling l1, each started from the one before.

    Parameters
    ----------
    X, y, qid, group, sample_weight, query_weight
        Training data, as in ``DominationRanker.fit``.
    l1s
        The strengths to solve for, in falling order; by default ``n_steps`` of them, geometric,
        from the smallest that gives w = 0 down to ``min_ratio`` times it.
    max_nonzero
        End the path before the first model with more non-zero weights.
    eval_set, eval_qid
        Evaluation data for the ranker's ``metric``.
    callbacks
        Called after every step; one that returns True ends the path.
    **parameters
        Parameters of ``DominationRanker`` (``l2``, ``tol``, ``metric`` ...).

    Returns
    -------
    RegularizationPath
        Weights, non-zeros, loss and metric of each step; ``plot()`` draws quality against size.

    Examples
    --------
    >>> from rankine import domination_path
    >>> X = [[1.0, 0.0], [0.8, 1.0], [0.1, 0.0], [0.0, 1.0]]
    >>> path = domination_path(X, [1, 1, 0, 0], n_steps=3)
    >>> path.nonzeros.tolist()[0]
    0
    """
    from rankine.rankers.domination import DominationRanker

    return DominationRanker(**parameters).path(
        X,
        y,
        qid=qid,
        group=group,
        sample_weight=sample_weight,
        query_weight=query_weight,
        eval_set=eval_set,
        eval_qid=eval_qid,
        l1s=l1s,
        n_steps=n_steps,
        min_ratio=min_ratio,
        max_nonzero=max_nonzero,
        callbacks=callbacks,
    )


def path_of(
    ranker: DominationRanker,
    prepared: Prepared,
    descent: CoordinateDescent,
    settings: DescentSettings,
    *,
    l1s: Sequence[float] | None,
    n_steps: int,
    min_ratio: float,
    max_nonzero: int | None,
    callbacks: Sequence[Callback],
) -> RegularizationPath:
    """Walk the path of a prepared job."""
    largest = float(np.abs(descent.gradient(settings.threads)).max(initial=0.0))
    grid = check_grid(l1s, largest, n_steps, min_ratio)
    points: list[PathPoint] = []
    values: list[float] = []
    for point in walk(descent, grid.tolist(), float(ranker.l2), settings):
        if max_nonzero is not None and point.nonzeros > max_nonzero:
            break
        points.append(point)
        values.append(_quality(ranker.metric, prepared.job.valid, point.solution.coef))
        if _told_to_stop(callbacks, point, len(points), len(grid), values[-1], ranker.metric):
            break
    _warn_unless_done(points)
    return _collect(ranker, prepared, points, values)


def _warn_unless_done(points: list[PathPoint]) -> None:
    """Say once which steps ended before their gap was small."""
    short = [point for point in points if point.solution.stop_reason == "max_iter"]
    if not short:
        return
    from sklearn.exceptions import ConvergenceWarning

    worst = max(short, key=lambda point: point.solution.certificate["relative_gap"])
    warnings.warn(
        f"{len(short)} of {len(points)} steps of the path stopped at max_iter, that of "
        f"l1={worst.l1:.3g} at a relative duality gap of "
        f"{worst.solution.certificate['relative_gap']:.1e}; raise max_iter, or min_ratio",
        ConvergenceWarning,
        stacklevel=4,
    )


def best_within(
    ranker: DominationRanker, job: Job, descent: CoordinateDescent, largest: float, limit: int
) -> PathPoint | None:
    """The best model with at most ``limit`` non-zero weights; None when only w = 0 has so few."""
    from rankine.metrics import parse_metric

    sign = 1.0 if parse_metric(ranker.metric).larger_is_better else -1.0
    best: PathPoint | None = None
    best_quality = -np.inf
    settings = ranker.solver_settings(job.seed, ranker.n_threads)
    for count, point in enumerate(
        points_within(descent, largest, float(ranker.l2), settings, limit), start=1
    ):
        value = _quality(ranker.metric, job.valid, point.solution.coef)
        quality = -point.loss if job.valid is None else sign * value
        if quality > best_quality:
            best, best_quality = point, quality
        if _told_to_stop(job.callbacks, point, count, None, value, ranker.metric):
            break
    return best


def check_grid(
    l1s: Sequence[float] | None, largest: float, n_steps: int, min_ratio: float
) -> NDArray[np.float64]:
    """The strengths of a path, checked."""
    if l1s is None:
        if n_steps < 1 or not 0 < min_ratio <= 1:
            raise ParameterError(
                f"n_steps={n_steps!r}, min_ratio={min_ratio!r}",
                fix="Pass n_steps >= 1 and 0 < min_ratio <= 1",
            )
        return l1_grid(largest, n_steps, min_ratio)
    grid = np.asarray(l1s, dtype=np.float64)
    if grid.ndim != 1 or len(grid) == 0 or not np.isfinite(grid).all() or (grid <= 0).any():
        raise ParameterError("l1s must be positive finite numbers", fix="Pass for example [10, 1]")
    if (np.diff(grid) > 0).any():
        raise ParameterError("l1s must fall", fix="Sort them from large to small")
    return grid


def _quality(metric: str, valid: Dataset | None, coef: NDArray[np.float64]) -> float:
    if valid is None:
        return float("nan")
    from rankine.metrics import evaluate

    scores = row_scores(valid.X, coef)
    return float(evaluate(metric, valid.y, scores, valid.qid, columns=valid.columns))


def _told_to_stop(
    callbacks: Sequence[Callback],
    point: PathPoint,
    step: int,
    total: int | None,
    value: float,
    metric: str,
) -> bool:
    numbers = {"l1": point.l1, "nonzeros": float(point.nonzeros), "loss": point.loss}
    if np.isfinite(value):
        numbers[metric] = value
    coef = point.solution.coef
    return notify(callbacks, Progress("path", step, total, numbers, lambda: coef))


def _collect(
    ranker: DominationRanker, prepared: Prepared, points: list[PathPoint], values: list[float]
) -> RegularizationPath:
    from rankine.metrics import parse_metric

    names = getattr(ranker, "feature_names_in_", None)
    rows = [sparse.csr_array(prepared.scaling.fold(p.solution.coef)[None, :]) for p in points]
    shape = (0, prepared.data.n_features)
    return RegularizationPath(
        np.array([p.l1 for p in points]),
        sparse.csr_array(sparse.vstack(rows)) if rows else sparse.csr_array(shape),
        np.array([p.loss for p in points]),
        np.array([p.solution.objective for p in points]),
        np.array([p.solution.certificate["relative_gap"] for p in points]),
        np.array(values, dtype=np.float64),
        np.array([p.seconds for p in points]),
        ranker.metric,
        parse_metric(ranker.metric).larger_is_better,
        None if names is None else tuple(str(name) for name in names),
        prepared.scaling.transforms,
        {"ranker": ranker._system, **plain_parameters(ranker)},
    )
