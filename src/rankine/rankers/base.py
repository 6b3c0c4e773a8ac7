"""Base class of all rankers.

A ranker is one file: a class with its parameters, ``system``, ``capabilities`` and two methods,

``_check()``
    raise for parameters outside their domain, before any data is read;
``_solve(task) -> FitResult``
    build a problem from ``task.source`` and solve it with ``task.run`` or ``task.run_strengths``.

Everything around the solver is shared: what parameters mean (``parameters``), input (``inputs``),
sources (``sources``), warm starts (``warm_start``), the path of a fit (``pipeline``, ``fitting``),
fits to several goals (``goals``), prediction (``prediction``), the model (``fitted_model``) and
notebook display (``display``). The classes of these modules also define what a ranker may override.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from rankine.rankers.capabilities import Capabilities
from rankine.rankers.display import DisplayMixin
from rankine.rankers.fitted_model import ModelMixin
from rankine.rankers.goals import GoalsMixin
from rankine.rankers.inputs import FitArguments
from rankine.rankers.prediction import PredictionMixin
from rankine.rankers.registry import Condition
from rankine.solvers.base import Callback


def _supports_partial_fit(ranker: BaseRanker) -> bool:
    return ranker.capabilities.partial


@dataclass(eq=False, repr=False, kw_only=True)
class BaseRanker(GoalsMixin, PredictionMixin, ModelMixin, DisplayMixin, BaseEstimator):
    """Base of all rankers; their parameters are the fields of the class.

    Parameters
    ----------
    metric
        Metric of ``score``, and of evaluation during training.
    scale
        ``"auto"`` (columns with values outside [-1, 1] are divided by their standard deviation,
        sparse ones by their largest magnitude), ``"none"`` or None, ``"standard"``, ``"maxabs"`` or
        ``"query"`` (by the range within each list). All but the last fold into the weights. Streams
        and partitions measure ``"auto"`` on their first 10,000 lists, streams on at most 65,536
        rows. ``"choose"`` takes the one of ``"auto"`` and ``"query"`` with which this ranker ranks
        held-out lists better (two folds of at most 2,000 lists, four short fits; not on
        partitions).
    missing
        What replaces missing values (NaN and null): ``"error"`` raises for them; ``"zero"``, the
        ``"mean"`` of the training rows, the smallest value within the list (``"query_min"``), or 0
        and a separate weight for being missing (``"indicator"``). ``"auto"`` is ``"indicator"`` in
        raw logs (``"zero"`` if no number is missing) and ``"error"`` elsewhere; ``AdditiveRanker``
        has a cell for missing values in its tables. The model stores the choice.
    early_stopping
        Stop after this many reports without a better ``metric`` on the evaluation set, and keep
        the best weights; ``evals_`` holds the values.
    warm_start
        Start from the weights of the last fit.
    random_state
        Seed.
    propensity
        Learn from clicks: the probability that a user examines position 1, 2, ... (the last one
        holds for all further positions), for example from ``estimate_propensity``. A row with a
        positive label weighs 1 / propensity of its ``position``, at most ``max_weight``.
    max_weight
        Upper bound of the weights by position.
    position_offset
        Learn an offset for each of this many first positions together with the weights (the first
        is 0, the last holds for all further positions; penalised like the weights). Offsets are
        stored in ``position_offset_`` and enter no score, explanation or export.
    """

    metric: str = "ndcg@10"
    scale: str | None = "auto"
    missing: str = "auto"
    early_stopping: int | None = None
    warm_start: bool = False
    random_state: Any = None
    propensity: Sequence[float] | None = None
    max_weight: float = 10.0
    position_offset: int | None = None

    _estimator_type = "ranker"
    #: Name on the command line and in model files.
    system: ClassVar[str] = ""
    capabilities: ClassVar[Capabilities] = Capabilities()
    # Subclasses also have ``letor_grid``, the values that the LETOR protocol tries on validation
    # data, and ``search_space``, what tuning searches.
    #: Parameter -> other parameters and their values. With one of the values for each of them the
    #: parameter has no effect, and is then refused unless it has its default.
    no_effect_with: ClassVar[Mapping[str, Condition]] = {}
    #: Parameters that have several values along a path.
    path_varies: ClassVar[tuple[str, ...]] = ()
    #: Whether rows may hold missing values (NaN).
    takes_missing: ClassVar[bool] = False
    #: Whether the size of a column's values matters, so that ``scale`` does.
    scales: ClassVar[bool] = True
    #: Whether columns of raw logs become columns of tables, and not features.
    takes_tables: ClassVar[bool] = False

    coef_: NDArray[np.float64] = field(init=False)
    n_iter_: int = field(init=False)

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        eval_set: Any = None,
        eval_names: Sequence[str] | None = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        eval_query_weight: Any = None,
        coef_init: Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | Path | None = None,
        every: int = 100_000,
        resume: bool = False,
        intervals: bool = False,
        bootstrap: int | None = None,
    ) -> Self:
        """Learn weights from labelled lists. A fit that fails leaves the ranker as it was.

        Parameters
        ----------
        X
            Rows x features: array, sparse matrix, data frame (a ``qid`` column is taken out and
            used); or a source that includes labels, query ids and weights: a ``Dataset``, a
            stream ``rankine.scan(...)``, partitions ``rankine.distributed.scan(...)``, a raw log
            ``rankine.logs.scan(...)``, which a ranker that needs all rows at once loads.
            ``capabilities`` lists those that a ranker supports.
        y
            Labels, larger is better.
        qid
            Query id of each row, any order; None means that all rows are one query.
        group
            Rows per query, in row order, instead of ``qid``.
        sample_weight
            Row weights; a pair weighs w_i w_j times its query's weight.
        query_weight
            Mapping from query id to weight, or one number per query in order of first appearance.
        eval_set, eval_qid, eval_group
            ``(X, y, qid)``, ``(X, y)`` with its query ids or rows per query, a ``Dataset`` or a
            stream: held in memory and evaluated during training. A list of several, or a mapping
            from names to them, is evaluated whole, with one entry of ``eval_qid`` or
            ``eval_group`` each; the last one decides ``early_stopping`` and chooses between
            strengths.
        eval_names
            Names of a list's entries in ``evals_``; ``valid_0``, ``valid_1`` ... by default.
        eval_query_weight
            Weights of the held-out queries in the mean of ``metric``, as ``query_weight``; 1 by
            default. Weights of the training are never used for evaluation.
        coef_init
            Weights, or a ``LinearModel``, to start from. A model that was trained by this ranker
            also continues its number of steps.
        callbacks
            Functions of a ``Progress``; one that returns True stops training.
        checkpoint, every
            Folder for checkpoints. Runs over rows and streams write one every ``every`` lists or
            steps and keep the last two; runs over partitions store the state of the solver and the
            partial results since then.
        resume
            Continue from the checkpoints in the folder. The finished model has the same bits as
            after a run that was never interrupted.
        intervals
            Also compute the covariance of the weights, so that ``intervals()`` and
            ``explain_pair`` give intervals; ``covariance_`` and the model hold it. See
            ``docs/how-to/intervals.md``.
        bootstrap
            Estimate intervals from this many trainings on queries drawn with replacement, for
            rankers without a formula. Exact rankers start each from the solution.
        """
        self._fit(
            FitArguments(
                X=X,
                y=y,
                qid=qid,
                group=group,
                sample_weight=sample_weight,
                query_weight=query_weight,
                eval_set=eval_set,
                eval_names=eval_names,
                eval_qid=eval_qid,
                eval_group=eval_group,
                eval_query_weight=eval_query_weight,
                coef_init=coef_init,
                callbacks=callbacks,
                checkpoint=checkpoint,
                every=every,
                resume=resume,
                intervals=intervals,
                bootstrap=bootstrap,
            ),
        )
        return self

    @available_if(_supports_partial_fit)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
    ) -> Self:
        """Learn from more lists; steps continue where the last call, or ``fit``, ended.

        Columns and scaling stay as in the first call.
        """
        self._partial_fit(
            FitArguments(
                X=X,
                y=y,
                qid=qid,
                group=group,
                sample_weight=sample_weight,
                query_weight=query_weight,
            ),
        )
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.takes_missing or self.missing not in ("auto", "error")
        tags.target_tags.required = True
        return tags
