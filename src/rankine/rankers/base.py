"""What all rankers share: input, scaling, evaluation, prediction, the model.

A ranker implements ``_solve(job) -> Solution``; everything around it stands here.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from rankine.core.errors import (
    FeatureMismatchError,
    NoPairsError,
    ParameterError,
    SchemaError,
)
from rankine.core.strict_json import plain
from rankine.data.dataset import Dataset, check_weight, require_rows, row_scores
from rankine.data.frames import take_qid
from rankine.kernels.random import resolve_seed
from rankine.rankers.html import ShownAsHtml
from rankine.rankers.monitor import Monitor
from rankine.rankers.parts_fit import is_partitioned, prepare_parts, training_facts
from rankine.rankers.plain import plain_parameters
from rankine.rankers.query_weight import resolve_query_weight
from rankine.rankers.trace import training_story
from rankine.transforms.scaling import Scaling, fit_scaling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rankine.model import LinearModel
    from rankine.rankers.parts_job import PartsJob
    from rankine.solvers.base import Callback, Solution

__all__ = [
    "BaseRanker",
    "Job",
    "Prepared",
    "plain_parameters",
    "resolve_query_weight",
    "resolve_seed",
]


@dataclass(frozen=True, eq=False)
class Job:
    """One call of ``fit``, ready for a solver.

    Attributes
    ----------
    data
        Training data, already scaled; ``data.weight`` holds ``sample_weight``.
    query_weight
        One weight per query of ``data.queries`` (ones when none were given).
    coef_init
        Start, in scaled units, or None.
    valid
        Scaled evaluation data, or None.
    callbacks
        Called with ``Progress``.
    seed
        Root of every random stream of this fit.
    """

    data: Dataset
    query_weight: NDArray[np.float64]
    coef_init: NDArray[np.float64] | None
    valid: Dataset | None
    callbacks: Sequence[Callback]
    seed: int

    def solve(self, ranker: BaseRanker) -> Solution:
        """Train the ranker on this job."""
        return ranker._solve(self)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A job, and what is needed to keep its result: scaling, unscaled data, evaluation."""

    job: Any
    scaling: Scaling
    data: Any
    monitor: Monitor | None


class BaseRanker(ShownAsHtml, BaseEstimator, ABC):
    """Base of all rankers.

    Sub-classes have ``__init__`` parameters ``metric``, ``scale``, ``early_stopping``,
    ``warm_start`` and ``random_state`` besides their own, set ``_system`` and implement
    ``_solve``. With an evaluation set, ``early_stopping=k`` stops after k reports without a better
    ``metric`` and keeps the best weights; ``evals_`` holds what was measured.
    """

    _estimator_type = "ranker"
    #: Name on the command line and in model files.
    _system: ClassVar[str] = ""

    metric: str
    scale: str
    random_state: Any

    coef_: NDArray[np.float64]
    n_iter_: int

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
        eval_qid: ArrayLike | None = None,
        coef_init: ArrayLike | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Any:
        """Learn weights from labelled rows.

        Parameters
        ----------
        X
            Rows x features: array, sparse matrix, data frame (a ``qid`` column is taken out and
            used), or a whole ``Dataset`` (then ``y``, ``qid`` and weights come with it), or
            partitions, ``rankine.distributed.scan(...)``.
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
        eval_set, eval_qid
            ``(X, y)`` and its query ids, or a ``Dataset``: evaluated during training.
        coef_init
            Weights to start from.
        callbacks
            Functions of a ``Progress``; one that returns True stops training.
        """
        started = time.perf_counter()
        given = (
            X, y, qid, group, sample_weight, query_weight, eval_set, eval_qid, coef_init, callbacks
        )  # fmt: skip
        prepared = prepare_parts(self, *given) if is_partitioned(X) else self._prepare(*given)
        solution = prepared.job.solve(self)
        monitor, patience = prepared.monitor, getattr(self, "early_stopping", None)
        self.evals_ = [] if monitor is None else monitor.trace
        if monitor is not None and patience is not None:
            solution = monitor.best(solution)
        self._keep(solution, prepared.scaling, prepared.data, time.perf_counter() - started)
        return self

    def _prepare(
        self,
        X: Any,
        y: Any,
        qid: Any,
        group: Any,
        sample_weight: Any,
        query_weight: Any,
        eval_set: Any,
        eval_qid: Any,
        coef_init: Any = None,
        callbacks: Sequence[Callback] = (),
    ) -> Prepared:
        """Check and scale what ``fit`` was given."""
        from rankine.metrics import parse_metric

        parse_metric(self.metric)
        data = self._dataset(X, y, qid, group, sample_weight, reset=True)
        if data.n_rows == 1:
            raise NoPairsError(
                "n_samples=1: one row has nothing to be ranked against", fix="Pass more rows"
            )
        valid = self._eval_data(eval_set, eval_qid)
        scaling = fit_scaling(self.scale, data)
        start = self._start(coef_init, scaling, data.n_features)
        watched = None if valid is None else scaling.apply(valid)
        patience = getattr(self, "early_stopping", None)
        monitor = None if watched is None else Monitor(self.metric, watched, patience)
        job = Job(
            scaling.apply(data),
            resolve_query_weight(query_weight, data),
            start,
            watched,
            tuple(callbacks) if monitor is None else (monitor, *callbacks),
            resolve_seed(self.random_state),
        )
        return Prepared(job, scaling, data, monitor)

    @abstractmethod
    def _solve(self, job: Job) -> Solution:
        """Train on a prepared job."""

    def _solve_parts(self, job: PartsJob) -> Solution:
        """Train on partitions."""
        raise ParameterError(
            f"{type(self).__name__} cannot be trained on {job.data.n_partitions} partitions",
            fix="Load the data instead",
        )

    def _keep(self, solution: Solution, scaling: Scaling, data: Any, seconds: float) -> None:
        self.coef_ = scaling.fold(solution.coef)
        self.n_iter_ = solution.n_iter
        self.solution_ = solution
        self.scaling_ = scaling
        self.training_ = {**training_facts(data), "seconds": round(seconds, 3)}

    def predict(self, X: Any, qid: ArrayLike | None = None) -> NDArray[np.float64]:
        """Scores in row order; only their order within a query means anything.

        ``qid`` matters only for ``scale="query"``, which scales each list by itself.
        """
        check_is_fitted(self, "coef_")
        if isinstance(X, Dataset):
            matrix, found = self._same_columns(X).X, X.qid
        else:
            matrix, found = self._matrix(X, reset=False)
        if self.scaling_.transforms:
            ids = qid if qid is not None else found
            matrix = self.scaling_.apply(
                Dataset.from_arrays(matrix, np.zeros(matrix.shape[0]), ids)
            ).X
        return row_scores(matrix, self.coef_)

    def rank(
        self, X: Any, qid: ArrayLike | None = None, k: int | None = None
    ) -> Mapping[Any, NDArray[np.int64]]:
        """Row numbers of each query, best first, at most ``k``; equal scores keep row order."""
        from rankine.data.query_index import QueryIndex

        scores = self.predict(X, qid)
        if qid is None:
            qid = X.qid if isinstance(X, Dataset) else take_qid(X)[1]
        index = QueryIndex.from_qid(qid, len(scores))
        ranked: dict[Any, NDArray[np.int64]] = {}
        for q, query_id in enumerate(index.ids.tolist()):
            rows = index.rows_of(q)
            ranked[query_id] = rows[np.argsort(-scores[rows], kind="stable")][:k]
        return ranked

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean of ``metric`` over queries; a query weighs the mean weight of its rows."""
        from rankine.metrics import data_columns, evaluate

        columns = None
        if isinstance(X, Dataset):
            y, qid, columns = X.y, X.qid, data_columns(X)
        elif qid is None:
            qid = take_qid(X)[1]
        if y is None:
            raise SchemaError("score needs labels", fix="Pass y")
        scores = self.predict(X, qid)
        return evaluate(self.metric, y, scores, qid, sample_weight=sample_weight, columns=columns)

    def to_model(self) -> LinearModel:
        """The fitted weights as a frozen, savable model; equal trainings give equal files."""
        from rankine._version import __version__
        from rankine.model import LinearModel

        check_is_fitted(self, "coef_")
        names = getattr(self, "feature_names_in_", None)
        return LinearModel.from_weights(
            self.coef_,
            feature_names=None if names is None else [str(name) for name in names],
            transforms=self.scaling_.transforms,
            metric=self.metric,
            parameters={"ranker": self._system, **plain_parameters(self)},
            provenance={
                "rankine": __version__,
                "training": plain({k: v for k, v in self.training_.items() if k != "seconds"}),
                "n_iter": int(self.n_iter_),
                "stop_reason": self.solution_.stop_reason,
                "certificate": plain(dict(self.solution_.certificate)),
                **training_story(self),
            },
        )

    # ------------------------------------------------------------------ input
    def _matrix(self, X: Any, *, reset: bool) -> tuple[Any, Any]:
        """Validated float matrix and the query ids found in a data frame, if any."""
        X, qid = take_qid(X)
        matrix = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )
        return matrix, qid

    def _dataset(
        self, X: Any, y: Any, qid: Any, group: Any, sample_weight: Any, *, reset: bool
    ) -> Dataset:
        if isinstance(X, Dataset):
            if y is not None or qid is not None or group is not None:
                raise ParameterError(
                    "a Dataset already holds y and qid", fix="Pass the Dataset alone"
                )
            if reset:
                self.n_features_in_ = X.n_features
                self._set_names(X.feature_names)
            weight = X.weight if sample_weight is None else check_weight(sample_weight, X.n_rows)
            return require_rows(replace(X, weight=weight, query_index=X.queries))
        if y is None:
            raise SchemaError(
                "requires y to be passed, but the target y is None", fix="Pass labels"
            )
        matrix, found = self._matrix(X, reset=reset)
        labels = np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            import warnings

            from sklearn.exceptions import DataConversionWarning

            warnings.warn(
                "A column-vector y was passed when a 1d array was expected.",
                DataConversionWarning,
                stacklevel=3,
            )
            labels = labels.ravel()
        return Dataset.from_arrays(
            matrix,
            labels,
            qid if qid is not None or group is not None else found,
            group=group,
            weight=sample_weight,
        )

    def _same_columns(self, data: Dataset) -> Dataset:
        """Refuse a dataset whose columns are not those of the fit."""
        if data.n_features != self.n_features_in_:
            raise FeatureMismatchError(
                f"X has {data.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input",
                fix=f"Read the data with n_features={self.n_features_in_}",
            )
        names = getattr(self, "feature_names_in_", None)
        if names is not None and data.feature_names is not None:
            unlike = [j for j, name in enumerate(data.feature_names) if name != names[j]]
            if unlike:
                raise FeatureMismatchError(
                    f"column {unlike[0]} is {data.feature_names[unlike[0]]!r} here and "
                    f"{names[unlike[0]]!r} in the fit",
                    fix="Give the columns in the order of the fit",
                )
        return data

    def _set_names(self, names: Sequence[str] | None) -> None:
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _eval_data(self, eval_set: Any, eval_qid: Any) -> Dataset | None:
        if eval_set is None:
            return None
        if isinstance(eval_set, Dataset):
            return eval_set
        X, y = eval_set[0] if isinstance(eval_set, list) else eval_set
        return self._dataset(X, y, eval_qid, None, None, reset=False)

    def _start(
        self, coef_init: Any, scaling: Scaling, n_features: int
    ) -> NDArray[np.float64] | None:
        if coef_init is None and getattr(self, "warm_start", False) and hasattr(self, "coef_"):
            coef_init = self.coef_
        if coef_init is None:
            return None
        start = np.asarray(coef_init, dtype=np.float64)
        if start.shape != (n_features,):
            raise SchemaError(
                f"coef_init has shape {start.shape} for {n_features} features",
                fix="Pass one weight per feature",
            )
        return scaling.unfold(start).copy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
