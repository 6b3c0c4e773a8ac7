"""Base class of all rankers.

A ranker is one file: a class with its parameters, ``system``, ``capabilities`` and two methods,

``_check()``
    raise for parameters outside their domain, before any data is read;
``_solve(task) -> FitResult``
    build a problem from ``task.source`` and solve it with ``task.run`` or ``task.run_strengths``.

Everything around the solver is shared: input (``inputs``), sources (``sources``), the path of a fit
(``pipeline``, ``fitting``), prediction (``prediction``), the model (``fitted_model``) and notebook
display (``display``).
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from rankine.core.errors import ParameterError, SchemaError
from rankine.core.specs import MissingValues
from rankine.data.dataset import Dataset
from rankine.model import LinearModel
from rankine.model.checks import read_progress
from rankine.rankers.capabilities import Capabilities
from rankine.rankers.clicks import PositionCorrection, QueryDivisor
from rankine.rankers.display import DisplayMixin
from rankine.rankers.fitted_model import ModelMixin
from rankine.rankers.fitting import FitResult, FitTask
from rankine.rankers.inputs import FitArguments, FittedColumns
from rankine.rankers.pipeline import fit_ranker, partial_fit_ranker
from rankine.rankers.prediction import PredictionMixin
from rankine.rankers.registry import Condition
from rankine.rankers.scale_choice import CHOOSE, choose_scale
from rankine.rankers.warm_start import EarlierRun, check_start_model
from rankine.samplers.reservoir import Reservoir
from rankine.solvers.base import Callback
from rankine.transforms.clicks import check_offset, inverse_propensity
from rankine.transforms.missing import check_rule, rule_of
from rankine.transforms.scaling import Scaling, check_scale, fit_scaling

if TYPE_CHECKING:
    from rankine.rankers.goals import GoalMixture
    from rankine.rankers.sources import MemorySource


def _supports_partial_fit(ranker: BaseRanker) -> bool:
    return ranker.capabilities.partial


@dataclass(eq=False, repr=False, kw_only=True)
class BaseRanker(PredictionMixin, ModelMixin, DisplayMixin, BaseEstimator, ABC):
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
    #: Parameter -> another parameter and its values with which the first has no effect. It is then
    #: refused unless it has its default.
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
        """
        fit_ranker(
            self,
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
        partial_fit_ranker(
            self,
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

    # ------------------------------------------------- what a ranker implements or overrides
    @abstractmethod
    def _check(self) -> None:
        """Raise for parameters outside their domain."""

    @abstractmethod
    def _solve(self, task: FitTask) -> FitResult:
        """Build the problem of a task and solve it."""

    def _solve_more(self, task: FitTask) -> FitResult:
        """Learn from the rows of one call of ``partial_fit``."""
        return self._solve(task)

    def _mix_goals(self, task: FitTask, sources: Sequence[MemorySource]) -> GoalMixture:  # noqa: ARG002
        """Return the risks of several goals, each a source with the same rows and other labels."""
        raise ParameterError(
            f"{type(self).__name__} cannot be fitted to several goals",
            parameter="ranker",
            fix="Use ranksvm, least-squares, additive or elastic",
        )

    def _divisor(self) -> QueryDivisor:
        """Return what the loss of each query is divided by; click correction depends on it."""
        return QueryDivisor.NOTHING

    def _needs_pairs(self) -> bool:
        """Return whether a list whose rows all have the same label teaches nothing."""
        return True

    def _weighs_lists(self) -> bool:
        """Return whether a heavier list counts more; if not, weighted comparisons are refused.

        The loss of a list that is divided by the weight of its pairs does not depend on it.
        """
        return False

    def _keeps_column_storage(self, X: Any) -> bool:  # noqa: ARG002
        """Return whether a matrix that is stored by columns is used as it is."""
        return False

    def _sample_stream(self, X: Any, query_weight: Any) -> tuple[Any, Reservoir | None]:  # noqa: ARG002
        """Return the rows to learn from, and the reservoir that sampled them from a stream."""
        return X, None

    def _add_to_reservoir(
        self,
        data: Dataset,
        query_weight: Any,  # noqa: ARG002
    ) -> tuple[Dataset, Reservoir | None]:
        """Return the rows for one call of ``partial_fit``, and the reservoir that holds them."""
        return data, None

    # ------------------------------------------------------------- what the parameters mean
    def _check_effects(self, varied: tuple[str, ...] = ()) -> None:
        """Raise for a parameter that has no effect beside the others.

        What depends on a parameter of several values (``varied``) may have an effect with some.
        """
        parameters = inspect.signature(type(self).__init__).parameters
        defaults = {name: parameter.default for name, parameter in parameters.items()}
        shared = {"max_weight": {"propensity": (None,)}}
        for name, conditions in {**shared, **self.no_effect_with}.items():
            if name not in defaults:  # a subclass may have its own constructor
                continue
            value = getattr(self, name)
            is_off = not isinstance(value, bool) and value == 0
            if is_off or value is defaults[name] or value == defaults[name]:
                continue
            if name == "l2" and getattr(self, "record_at", None):
                continue  # the recorded objective has the penalty, whatever the solver does
            for other, values in conditions.items():
                if other not in varied and _is_one_of(getattr(self, other), values):
                    raise ParameterError(
                        f"it has no effect with {other}={getattr(self, other)!r}",
                        parameter=name,
                        fix=f"Leave it out, or change {other}",
                    )

    def fit_scaling(self, data: Dataset) -> Scaling:
        """Return the scaling and missing-value rule of a fit to these rows."""
        rule = self._missing(raw_log=data.encoding is not None)
        scale = self._scale()
        if scale == CHOOSE:
            scale = choose_scale(self, data)
        return fit_scaling(scale, data, rule)

    def _scale(self) -> str | None:
        """Return the kind of scaling; None where the size of columns does not matter."""
        if not self.scales:
            return None
        if self.scale == CHOOSE:
            return CHOOSE
        return check_scale(self.scale)

    def _missing(self, *, raw_log: bool = False, start_model: LinearModel | None = None) -> str:
        """Return the rule for missing values: for a raw log "auto", or that of the earlier fit."""
        rule = check_rule(self.missing)
        if rule == "auto":
            if self.takes_missing:
                return "bin"
            if raw_log and start_model is not None:
                return rule_of(start_model.missing)
            if raw_log and self.warm_start and hasattr(self, "scaling_"):
                return rule_of(self.scaling_.missing)
            if raw_log:
                return "auto"
            # Silent replacement of missing features would hide faults in the data.
            return "error"
        if self.takes_missing and rule != "error":
            raise ParameterError(
                f"{rule!r} is not needed: {type(self).__name__} has a cell for missing values in "
                "every table",
                parameter="missing",
                fix="Use 'auto', or 'error' to refuse missing values",
            )
        return rule

    def _click_correction(self) -> PositionCorrection:
        """Return how rows are corrected for their positions."""
        weights: Any = ()
        if self.propensity is not None:
            weights = inverse_propensity(self.propensity, self.max_weight)
        return PositionCorrection(weights, check_offset(self.position_offset), self._divisor())

    def _check_start_model(self, model: LinearModel, columns: FittedColumns) -> None:
        """Raise unless a fit with these parameters can start from a model."""
        check_start_model(self, model, columns)

    def _earlier_run(self, model: LinearModel | None) -> EarlierRun | None:  # noqa: ARG002
        """Return the run that a fit continues: that of a model, or of the last fit."""
        return None

    def _start(
        self, coef_init: Any, columns: FittedColumns, scaling: Scaling
    ) -> tuple[NDArray[np.float64] | None, int]:
        """Return weights to start from, in scaled units, and the steps that led to them.

        ``coef_init`` comes before a warm start; None for both starts at 0.
        """
        n_steps = 0
        learned: MissingValues | None = None
        if coef_init is None:
            if not self._starts_warm():
                return None, 0
            coef_init, n_steps = self.coef_, int(self.n_iter_)
            learned = self.scaling_.missing
        elif isinstance(coef_init, LinearModel):
            learned = coef_init.missing
            if coef_init.parameters.get("ranker") == self.system:
                n_steps = read_progress(coef_init.provenance).n_iter
            coef_init = coef_init.to_dense()
        weights = np.asarray(coef_init, dtype=np.float64)
        if weights.shape != (columns.n_features,):
            raise SchemaError(
                f"the shape is {weights.shape} for {columns.n_features} features",
                parameter="coef_init",
                fix="Pass one weight per feature",
            )
        return scaling.unfold(weights, learned).copy(), n_steps

    def _starts_warm(self) -> bool:
        """Return whether a fit without ``coef_init`` starts from the last one."""
        return self.warm_start and hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.takes_missing or self.missing not in ("auto", "error")
        tags.target_tags.required = True
        return tags


def _is_one_of(value: Any, values: Sequence[Any]) -> bool:
    """Return whether a parameter has one of these values; it may be an array."""
    if value is None or isinstance(value, (str, bool, int)):
        return value in values
    return not np.size(value) and 0 in values
