"""The path of a fit, the same for every ranker and every source.

``fit`` runs ``_fit``: ``_prepare_task`` validates, opens the source, measures scaling and
missing-value rules, and prepares start and evaluation; the ranker builds its problem and solves it
in ``_solve``; ``_fitted_attributes`` collects what the fit sets. Nothing is written to the ranker
before that, so a failed fit leaves it as it was.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rankine.core.checks import check_count, reject_sets
from rankine.core.errors import CheckpointError, NoPairsError, ParameterError
from rankine.core.specs import ListRange
from rankine.data.dataset import Dataset
from rankine.data.sources import is_table
from rankine.kernels.compile import CLOCK
from rankine.kernels.random import resolve_seed
from rankine.model import LinearModel
from rankine.rankers.categories import encode_categories
from rankine.rankers.fitting import Evaluator, FitResult, FitTask, warn_not_converged
from rankine.rankers.inputs import (
    FitArguments,
    FittedColumns,
    InputsMixin,
    columns_of_source,
    read_eval_sets,
    read_rows,
)
from rankine.rankers.intervals import bootstrap_covariance, weight_covariance
from rankine.rankers.provenance import json_parameters
from rankine.rankers.scale_choice import CHOOSE, choose_scale
from rankine.rankers.sources import (
    MemorySource,
    PartitionSource,
    StreamSource,
    TrainingSource,
    adapt_raw_log,
    classify,
)
from rankine.rankers.warm_start import WarmStartMixin

if TYPE_CHECKING:
    from rankine.metrics import Metric
    from rankine.rankers.capabilities import Capabilities
    from rankine.samplers.reservoir import Reservoir

#: Parameters that do not change what a resumed run computes; the seed is stored separately.
_NOT_IN_CHECKPOINTS = ("random_state", "warm_start", "n_threads")
#: Fitted attributes that not every fit sets.
_OPTIONAL_ATTRIBUTES = ("position_offset_", "path_", "coef_path_", "covariance_")


class FitPipeline(InputsMixin, WarmStartMixin):
    """``fit``, ``partial_fit`` and what comes before the solver of ``path``.

    A ranker implements ``_check`` and ``_solve`` and overrides what else is special about it.
    """

    metric: str
    early_stopping: int | None
    random_state: Any
    capabilities: ClassVar[Capabilities]
    path_varies: ClassVar[tuple[str, ...]]

    # ------------------------------------------------- what a ranker implements or overrides
    @abstractmethod
    def _solve(self, task: FitTask) -> FitResult:
        """Build the problem of a task and solve it."""

    def _solve_more(self, task: FitTask) -> FitResult:
        """Learn from the rows of one call of ``partial_fit``."""
        return self._solve(task)

    def _check_intervals(self) -> None:
        """Raise unless the covariance of the weights can be computed with these parameters."""
        raise ParameterError(
            f"the weights of {type(self).__name__} are not the minimiser of a smooth objective, "
            "whose covariance has a formula",
            parameter="intervals",
            fix="Pass bootstrap=200, or use ranksvm, least-squares or additive",
        )

    def _check_bootstrap(self, arguments: FitArguments) -> None:
        """Raise unless a bootstrap can be computed with these arguments."""
        check_count("bootstrap", arguments.bootstrap)
        if arguments.bootstrap == 1 or not arguments.intervals:
            raise ParameterError(
                "it estimates intervals from at least two trainings",
                parameter="bootstrap",
                fix="Pass intervals=True and, for example, bootstrap=200",
            )
        if self.early_stopping is not None:
            raise ParameterError(
                "early stopping would stop every training elsewhere",
                parameter="bootstrap",
                fix="Pass early_stopping=None",
            )

    def _bootstrap(self, task: FitTask, result: FitResult, n_resamples: int) -> FitResult:
        """Add the covariance of the weights over trainings on resampled queries."""
        source = task.source
        if not isinstance(source, MemorySource) or len(result.solutions) > 1:
            raise ParameterError(
                "it repeats one training on rows in memory",
                parameter="bootstrap",
                fix="Load the rows, and pass a single strength",
            )
        start = task.start
        if hasattr(self, "tol"):  # exact: the start changes the time and not the result
            start = result.solution.coef
        repetition = replace(
            task, start=start, evaluator=None, patience=None, callbacks=(), intervals=False
        )
        coefs = [
            self._solve(replace(repetition, source=resampled)).solution.coef
            for resampled in source.resample_queries(n_resamples, task.seed)
        ]
        covariance = bootstrap_covariance(np.array(coefs), result.solution.coef, source)
        weights = weight_covariance(covariance, task.scaling, "bootstrap")
        return result.with_attributes(covariance_=weights)

    def _needs_pairs(self) -> bool:
        """Return whether a list whose rows all have the same label teaches nothing."""
        return True

    def _weighs_lists(self) -> bool:
        """Return whether a heavier list counts more; if not, weighted comparisons are refused.

        The loss of a list that is divided by the weight of its pairs does not depend on it.
        """
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

    # ------------------------------------------------------------------ the path of a fit
    def _fit(self, arguments: FitArguments) -> None:
        """Fit the ranker."""
        mark = CLOCK.mark()
        task = self._prepare_task(arguments, "fit")
        try:
            result = self._solve(task)
            if arguments.bootstrap is not None:
                result = self._bootstrap(task, result, arguments.bootstrap)
        finally:
            task.source.close()
        # One assignment sets everything: an interrupt comes before or after it.
        self.__dict__ = self._fitted_attributes(task, result, CLOCK.since(mark))

    def _partial_fit(self, arguments: FitArguments) -> None:
        """Learn from more rows; columns and scaling stay as in the first call."""
        mark = CLOCK.mark()
        self._check()
        self._check_effects()
        # Later calls use the columns and the scaling of the first one.
        first_call = not hasattr(self, "coef_")
        estimator: Any = copy(self)  # receives the columns of the first call
        data = read_rows(
            estimator,
            arguments.X,
            arguments.y,
            arguments.qid,
            arguments.group,
            arguments.sample_weight,
            reset=first_call,
        )
        data, reservoir = self._add_to_reservoir(data, arguments.query_weight)
        source = MemorySource(data, arguments.query_weight, self._click_correction())
        if first_call:
            scaling = source.measure(
                self._resolve_scale(source), self._missing(raw_log=source.log_record is not None)
            )
        else:
            scaling = source.scale(self.scaling_)
        columns = FittedColumns.from_estimator(estimator)
        seed = resolve_seed(self.random_state)
        task = FitTask(source, scaling, columns, seed=seed, reservoir=reservoir)
        result = self._solve_more(task)
        self.__dict__ = self._fitted_attributes(task, result, CLOCK.since(mark))

    def _prepare_task(self, arguments: FitArguments, action: str) -> FitTask:
        """Prepare everything that comes before the solver; ``action`` is "fit" or "path"."""
        metric = self._check_parameters(arguments, action)
        if is_table(arguments.X):
            arguments = encode_categories(arguments)
        supported = getattr(self.capabilities, action)
        X = adapt_raw_log(arguments.X, supported, for_tables=self.takes_tables)
        X, reservoir = self._sample_stream(X, arguments.query_weight)
        self._check_source(arguments, action, classify(X).kind)

        # Validation stores columns on the estimator that it is given. A copy receives them, so that
        # the ranker keeps its columns if anything below fails.
        estimator: Any = copy(self)
        source = self._open_source(estimator, X, arguments)
        columns = FittedColumns.from_estimator(estimator)
        estimator.log_record_ = source.log_record  # how evaluation sets are encoded
        has_queries = isinstance(source, MemorySource) and source.data.n_queries > 1
        align = partial(self._align_columns, columns=columns, log_record=source.log_record)
        eval_sets = read_eval_sets(estimator, arguments, align, needs_query_ids=has_queries)

        # Before anything random: a resumed fit continues with the seed of the interrupted one.
        seed = resolve_seed(self.random_state)
        metadata: dict[str, Any] = {}
        if arguments.checkpoint is not None:
            metadata = self._checkpoint_metadata(source)
            seed = source.open_checkpoints(
                arguments.checkpoint, arguments.every, metadata, seed, resume=arguments.resume
            )

        coef_init = arguments.coef_init
        start_model = coef_init if isinstance(coef_init, LinearModel) else None
        if start_model is not None:
            # A model of another log has weights of other features, even if there are as many.
            if source.log_record is not None:
                source.log_record.check_start(start_model)
            self._check_start_model(start_model, columns)
        elif coef_init is None and (self._starts_warm() or arguments.edit is not None):
            self._check_last_fit(columns, source)
        earlier = None
        if not isinstance(source, PartitionSource):
            earlier = self._earlier_run(start_model)

        # After the checkpoints are open, since partitions journal what is measured.
        earlier_scaling = None
        if earlier is not None:
            earlier_scaling = earlier.scaling(columns.n_features)
        rule = self._missing(raw_log=source.log_record is not None, start_model=start_model)
        scale = self._resolve_scale(source, start_model)
        scaling = source.measure(scale, rule, earlier_scaling)
        start, steps_seen = self._start(coef_init, columns, scaling)
        if earlier is not None:
            earlier = earlier.renumbered(scaling, columns.n_features)

        evaluator = Evaluator.from_sets(
            metric, {name: (scaling.apply(data), weight) for name, data, weight in eval_sets}
        )
        return FitTask(
            source=source,
            scaling=scaling,
            columns=columns,
            start=start,
            steps_seen=steps_seen,
            start_model=start_model,
            earlier=earlier,
            evaluator=evaluator,
            patience=self.early_stopping,
            callbacks=tuple(arguments.callbacks),
            seed=seed,
            checkpoint_metadata=metadata,
            reservoir=reservoir,
            intervals=arguments.intervals and arguments.bootstrap is None,
            edit=arguments.edit,
        )

    def _resolve_scale(
        self, source: TrainingSource, start_model: LinearModel | None = None
    ) -> str | None:
        """Return the kind of scaling; ``scale="choose"`` keeps that of a start model."""
        scale = self._scale()
        if scale != CHOOSE:
            return scale
        if start_model is not None:
            by_list = any(isinstance(spec, ListRange) for spec in start_model.transforms)
            return "query" if by_list else "auto"
        ranker: Any = self
        return choose_scale(ranker, source.sample())

    def _check_parameters(self, arguments: FitArguments, action: str) -> Metric:
        """Check parameters and options before any data is read; return the metric."""
        from rankine.metrics import parse_metric

        metric = parse_metric(self.metric)
        ranker: Any = self
        reject_sets(eval_names=arguments.eval_names, **ranker.get_params(deep=False))
        if self.early_stopping is not None:
            check_count("early_stopping", self.early_stopping)
            if arguments.eval_set is None and action == "fit" and arguments.edit is None:
                raise ParameterError(
                    "there is no evaluation data to watch",
                    parameter="early_stopping",
                    fix="Pass an eval_set, or None",
                )
        self._check()
        if arguments.bootstrap is not None:
            self._check_bootstrap(arguments)
        elif arguments.intervals:
            self._check_intervals()
        self._check_effects(self.path_varies if action == "path" else ())
        if action == "path" and self._click_correction().n_positions:
            raise ParameterError(
                "a path of models has no offsets",
                parameter="position_offset",
                fix="Fit one model per strength instead",
            )
        if arguments.resume and arguments.checkpoint is None:
            raise CheckpointError("nothing to resume from", fix="Pass the folder as checkpoint=")
        return metric

    def _check_source(self, arguments: FitArguments, action: str, kind: str) -> None:
        """Raise unless the ranker supports this action and these options for a kind of source."""
        name = type(self).__name__
        self.capabilities.require(action, kind, name)
        if arguments.checkpoint is not None:
            self.capabilities.require("checkpoint", kind, name)
        if arguments.query_weight is not None:
            self.capabilities.require("query_weight", kind, name)

    def _open_source(self, estimator: Any, X: Any, arguments: FitArguments) -> TrainingSource:
        """Open the source of the training rows and store their columns on ``estimator``."""
        correction = self._click_correction()
        use_journal = self.capabilities.journal
        source_type = classify(X)
        if source_type is MemorySource:
            data = read_rows(
                estimator,
                X,
                arguments.y,
                arguments.qid,
                arguments.group,
                arguments.sample_weight,
                reset=True,
                keep_columns=self._keeps_column_storage(X.X if isinstance(X, Dataset) else X),
            )
            self._check_rows(data)
            return MemorySource(
                data,
                arguments.query_weight,
                correction,
                threads=getattr(self, "n_threads", 1),
                use_journal=use_journal,
            )
        for name in ("y", "qid", "group", "sample_weight"):
            if getattr(arguments, name) is not None:
                raise ParameterError(
                    "streams and partitions include labels, query ids and weights",
                    parameter=name,
                    fix="Name the columns when scanning (label=, query=, weight=)",
                )
        source: TrainingSource
        if source_type is StreamSource:
            source = StreamSource(X, arguments.query_weight, correction, use_journal=use_journal)
        else:
            source = PartitionSource(X, correction, needs_pairs=self._needs_pairs())
        columns_of_source(source.n_features, source.feature_names).store(estimator)
        return source

    def _check_rows(self, data: Any) -> None:
        """Raise for rows in memory from which this ranker cannot learn."""
        if data.n_rows == 1:
            raise NoPairsError(
                "n_samples=1: one row has nothing to be ranked against", fix="Pass more rows"
            )
        weighted_comparisons = "comparison" in data.columns and data.weight is not None
        if weighted_comparisons and not self._weighs_lists():
            raise ParameterError(
                "the weights and ties of these comparisons would be lost: "
                f"{type(self).__name__} {self.capabilities.comparisons}",
                fix="Choose so, or leave weights and ties out",
            )

    def _checkpoint_metadata(self, source: TrainingSource) -> dict[str, Any]:
        """Return what a resumed run must share with the interrupted one."""
        parameters = json_parameters(self)
        for name in _NOT_IN_CHECKPOINTS:
            parameters.pop(name, None)
        return {
            "ranker": self.system,
            "parameters": parameters,
            "data": source.identity(),
            "n_features": source.n_features,
        }

    def _fitted_attributes(
        self, task: FitTask, result: FitResult, times: dict[str, float]
    ) -> dict[str, Any]:
        """Return the attributes of the fitted ranker: its parameters and what the fit adds."""
        name = type(self).__name__
        labels = result.values or range(len(result.solutions))
        solutions = dict(zip(labels, result.solutions, strict=True))
        warn_not_converged(name, getattr(self, "tol", None), solutions)

        scaling, solution = task.scaling, result.solution
        attributes: dict[str, Any] = {
            "coef_": scaling.fold(solution.coef),
            "n_iter_": solution.n_iter,
            "solution_": solution,
            "scaling_": scaling.with_learned_missing(solution.coef),
            "evals_": result.evals[result.position],
            "training_": {
                **task.source.metadata(),
                **result.parameters,
                "scaling": scaling.metadata,
                **times,
                **result.training,
            },
            "log_record_": task.source.log_record,
            # A model says what it was trained with, whatever is set later.
            "_fitted_parameters": json_parameters(self),
        }
        if scaling.positions:
            attributes["position_offset_"] = np.r_[0.0, scaling.split(solution.coef)[2]]
        if result.values:
            attributes["path_"] = result.solutions
            coefs = [scaling.fold(solution.coef) for solution in result.solutions]
            attributes["coef_path_"] = np.array(coefs)
        # Last, since tables replace what folding the parameters as weights gives.
        attributes |= result.attributes

        fitted: Any = copy(self)
        task.columns.store(fitted)
        # Attributes that an earlier fit set and this one does not would contradict the others.
        for optional in _OPTIONAL_ATTRIBUTES:
            fitted.__dict__.pop(optional, None)
        return {**fitted.__dict__, **attributes}
