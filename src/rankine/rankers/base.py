"""What all rankers share: ``fit`` from any source, prediction, the model.

A ranker is one file: a class with its parameters, ``system``, ``can`` and two methods,

``_check()``
    refuse parameters outside their domain, before any data is read;
``_solve(task) -> FitResult``
    build a problem from ``task.source`` and solve it by ``task.run`` or ``task.along``.

Everything around a solver stands in ``rankine.rankers.fitting``, where lists come from in
``rankine.rankers.sources``.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import estimator_html_repr
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from rankine.core.checks import check_count, reject_sets
from rankine.core.errors import (
    CheckpointError,
    EmptyDataError,
    FeatureMismatchError,
    NoPairsError,
    ParameterError,
    SchemaError,
)
from rankine.core.specs import MissingValues
from rankine.data.dataset import (
    Dataset,
    check_matrix,
    check_weight,
    concat,
    require_rows,
    row_scores,
)
from rankine.data.frames import is_frame, split_frame, take_qid
from rankine.data.query_index import QueryIndex
from rankine.kernels.compile import CLOCK
from rankine.kernels.random import resolve_seed
from rankine.model import LinearModel
from rankine.rankers.fitting import Evaluator, FitResult, FitTask, warn_not_converged
from rankine.rankers.provenance import TIMES, json_parameters, pack_trace, plain
from rankine.rankers.sources import (
    Capabilities,
    Clicks,
    MemorySource,
    PartitionSource,
    StreamSource,
    for_tables,
    source_kind,
)
from rankine.solvers.base import Callback
from rankine.transforms.apply import transformed_scores
from rankine.transforms.clicks import check_offset, inverse_propensity
from rankine.transforms.missing import UNTRAINED, check_rule, refuse_missing
from rankine.transforms.scaling import Scaling, check_scale, describe_scaling, fit_scaling

#: Parameters that do not decide what a resumed run computes; the seed is recorded by itself.
_NOT_RECORDED = ("random_state", "warm_start", "n_threads")
_BY_LIST = MissingValues("query_min")
#: More rows than this in one list are rather a forgotten query id.
_LONG_LIST = 10_000


def _learns_in_instalments(ranker: BaseRanker) -> bool:
    return ranker.capabilities.partial


@dataclass(eq=False, repr=False, kw_only=True)
class BaseRanker(BaseEstimator, ABC):
    """Base of all rankers; their parameters are the fields of the class.

    With an evaluation set, ``early_stopping=k`` stops after k reports without a better ``metric``
    and keeps the best weights; ``evals_`` holds what was measured.

    ``scale`` is ``"auto"`` (columns beyond [-1, 1] are divided by their standard deviation, sparse
    ones by their largest magnitude), ``"none"`` or None, ``"standard"``, ``"maxabs"`` or
    ``"query"`` (by the range within each list). All but the last fold into the weights. Streams and
    partitions measure ``"auto"`` on their first 10,000 lists.

    ``missing`` says what stands for NaN and null: ``"auto"`` refuses them (``AdditiveRanker`` has a
    place for them in its tables), and so does ``"error"``; ``"zero"``, the ``"mean"`` of the
    training rows, the smallest value within the list (``"query_min"``), or 0 and a weight of its
    own for being missing (``"indicator"``). The model keeps the choice.

    All of them learn from clicks. ``propensity`` is the probability that a user looks at position
    1, 2, ... (the last holds for all beyond it), such as ``estimate_propensity`` gives: a row with
    a positive label weighs 1 / propensity of the ``position`` it was shown at, at most
    ``max_weight``. ``position_offset=k`` learns an offset for each of the first k positions beside
    the weights (the first is 0, the last holds for all beyond it; penalised like the weights). It
    stands in ``position_offset_`` and in no score, explanation or export.
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
    #: What this ranker can do, and with which sources.
    capabilities: ClassVar[Capabilities] = Capabilities()
    # Sub-classes also have ``letor_grid``, the values that the LETOR protocol tries on validation
    # data, and ``search_space``, what tuning searches.
    #: Whether missing values (NaN) may stand in rows.
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
    ) -> Any:
        """Learn weights from labelled lists.

        Parameters
        ----------
        X
            Rows x features: array, sparse matrix, data frame (a ``qid`` column is taken out and
            used); or a source that brings labels, query ids and weights with it: a ``Dataset``, a
            stream ``rankine.scan(...)``, partitions ``rankine.distributed.scan(...)``, a raw log
            ``rankine.logs.scan(...)``, which a ranker that needs all rows at once loads. ``can``
            says which of them a ranker takes.
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
            ``(X, y)`` and its query ids or rows per query, a ``Dataset`` or a stream: held in
            memory and evaluated during training. A list of several, or a mapping from names to
            them, is evaluated whole, with one entry of ``eval_qid`` or ``eval_group`` each; the
            last one is watched by ``early_stopping`` and chooses between strengths.
        eval_names
            Names of a list's entries in ``evals_``; ``valid_0``, ``valid_1`` ... by default.
        eval_query_weight
            What each held-out query weighs in the mean of ``metric``, as ``query_weight``; 1 by
            default. Weights of the training are never used for judging.
        coef_init
            Weights, or a ``LinearModel``, to start from. A model that was trained by this ranker
            also hands on its number of steps.
        callbacks
            Functions of a ``Progress``; one that returns True stops training.
        checkpoint, every
            Folder for checkpoints. Runs over rows and streams write one every so many lists or
            steps and keep the last two; runs over partitions keep where the solver stands and
            the answers since then.
        resume
            Go on from what the folder holds. The finished model has the same bits as that of a
            run that was never interrupted.
        """
        mark = CLOCK.mark()
        task = self._task(
            X,
            y,
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
        )
        try:
            result = self._solve(task)
        finally:
            task.source.close()
        self._keep(task, result, CLOCK.since(mark))
        return self

    @available_if(_learns_in_instalments)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
    ) -> Any:
        """Learn from some more lists; steps continue where the last call, or ``fit``, ended.

        Feature scales are those of the first call.
        """
        mark = CLOCK.mark()
        self._check()
        first = not hasattr(self, "coef_")
        data = self._dataset(X, y, qid, group, sample_weight, reset=first)
        source = MemorySource(self._gathered(data, query_weight), query_weight, self._clicks())
        scaling = (
            source.measure(self._scale(), self._missing()) if first else source.scale(self.scaling_)
        )
        task = FitTask(source, scaling, seed=resolve_seed(self.random_state))
        self._keep(task, self._learn_more(task), CLOCK.since(mark))
        return self

    @abstractmethod
    def _check(self) -> None:
        """Refuse parameters outside their domain."""

    @abstractmethod
    def _solve(self, task: FitTask) -> FitResult:
        """Build the problem of a task and solve it."""

    def _gathered(self, data: Dataset, query_weight: Any) -> Dataset:  # noqa: ARG002
        """The rows to learn from: an instalment, with those that are kept of earlier ones."""
        return data

    def _learn_more(self, task: FitTask) -> FitResult:
        """One instalment, for rankers that ``can`` learn in instalments."""
        return self._solve(task)

    def _task(
        self,
        X: Any,
        y: Any = None,
        *,
        act: str = "fit",
        qid: Any = None,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        eval_set: Any = None,
        eval_names: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        eval_query_weight: Any = None,
        coef_init: Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: Any = None,
        every: int = 100_000,
        resume: bool = False,
    ) -> FitTask:
        """Everything before the solver: check, open, measure, scale, start, evaluation."""
        from rankine.metrics import parse_metric

        metric = parse_metric(self.metric)
        reject_sets(eval_names=eval_names, **self.get_params(deep=False))
        if self.early_stopping is not None:
            check_count("early_stopping", self.early_stopping)
            if eval_set is None and act == "fit":
                raise ParameterError(
                    f"early_stopping={self.early_stopping} has nothing to watch",
                    fix="Pass an eval_set, or leave early_stopping=None",
                )
        self._check()
        if self._clicks().positions and act == "path":
            raise ParameterError(
                "a path of models has no position_offset", fix="Fit a model per strength instead"
            )
        X = self._loaded(X, act)
        kind, name = source_kind(X), type(self).__name__
        self.capabilities.require(act, kind, name)
        asked = {"checkpoint": checkpoint, "query_weight": query_weight}
        for option, value in asked.items():
            if value is not None:
                self.capabilities.require(option, kind, name)
        if resume and checkpoint is None:
            raise CheckpointError("nothing to resume from", fix="Pass the folder as checkpoint=")
        source = self._source(kind, X, y, qid, group, sample_weight, query_weight)
        compared = kind == "memory" and "comparison" in source.data.columns
        if compared and source.data.weight is not None and not self._weighs_lists():
            raise ParameterError(
                "the weights and ties of these comparisons would be lost: "
                f"{name} {self.capabilities.comparisons}",
                fix="Choose so, or leave weights and ties out",
            )
        asked = {"qid": eval_qid, "group": eval_group, "query_weight": eval_query_weight}
        many = kind == "memory" and source.data.n_queries > 1
        held = self._eval_sets(eval_set, eval_names, asked, many)
        facts = self._recorded(source) if checkpoint is not None else {}
        seed = source.open_checkpoints(
            checkpoint, every, facts, resolve_seed(self.random_state), resume
        )
        scaling = source.measure(self._scale(), self._missing())
        if source.encoding is not None and isinstance(coef_init, LinearModel):
            source.encoding.check_start(coef_init)
        start, steps_seen = self._start(coef_init, scaling)
        return FitTask(
            source,
            scaling,
            start,
            steps_seen,
            Evaluator.over(metric, {name: (scaling.apply(data), w) for name, data, w in held}),
            self.early_stopping,
            tuple(callbacks),
            seed,
            facts,
        )

    def _loaded(self, X: Any, act: str) -> Any:
        """A raw log in memory where this ranker needs all rows at once; others as they are."""
        able = getattr(self.capabilities, act)
        if getattr(X, "encoding", None) is not None and self.takes_tables:
            return for_tables(X)
        log = getattr(X, "encoding", None) is not None and hasattr(X, "load")
        return X.load() if log and "stream" not in able and "memory" in able else X

    def _keep(self, task: FitTask, result: FitResult, times: dict[str, float]) -> None:
        """Remember what a task came to."""
        keys = result.values or range(len(result.solutions))
        solutions = dict(zip(keys, result.solutions, strict=True))
        warn_not_converged(type(self).__name__, getattr(self, "tol", None), solutions)
        scaling, solution = task.scaling, result.solution
        self.coef_ = scaling.fold(solution.coef)
        if scaling.positions:
            self.position_offset_ = np.r_[0.0, scaling.split(solution.coef)[2]]
        self.n_iter_ = solution.n_iter
        self.solution_ = solution
        self.scaling_ = scaling.with_learned_missing(solution.coef)
        self.evals_ = result.evals[result.position]
        self.training_ = {
            **task.source.metadata(),
            **result.notes,
            "scaling": scaling.metadata,
            **times,
        }
        self.encoding_ = task.source.encoding
        if result.values:
            self.path_ = result.solutions
            self.coef_path_ = np.array([scaling.fold(one.coef) for one in result.solutions])

    # ------------------------------------------------------------------ use
    def predict(
        self, X: Any, qid: ArrayLike | None = None, *, group: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Scores in row order; only their order within a query means anything.

        ``qid`` or ``group`` matters only for ``scale="query"`` and ``missing="query_min"``, which
        see each list by itself.
        """
        check_is_fitted(self, "coef_")
        if isinstance(X, Dataset):
            matrix = self._same_columns(X).X
        else:
            matrix = self._matrix(X, reset=False)[0]
        scaling = self.scaling_
        by_list = {"scale": scaling.kind == "query", "missing": scaling.missing == _BY_LIST}
        if not scaling.transforms:
            refuse_missing(matrix, getattr(self, "feature_names_in_", None), UNTRAINED)
            return row_scores(matrix, self.coef_)
        words = [f"{name}={getattr(self, name)!r}" for name, found in by_list.items() if found]
        act = f"predict with {words[0]}" if words else ""
        index = self._lists(act, X, qid, group, matrix.shape[0])
        rows = Dataset(matrix, np.zeros(matrix.shape[0]), index.codes, query_index=index)
        return transformed_scores(scaling.transforms, rows, self.coef_)

    def rank(
        self,
        X: Any,
        qid: ArrayLike | None = None,
        k: int | None = None,
        *,
        group: ArrayLike | None = None,
    ) -> Mapping[Any, NDArray[np.int64]]:
        """Row numbers of each query, best first, at most ``k``; equal scores keep row order.

        Without ``qid`` and ``group`` all rows are the candidates of one query, number 0.
        """
        scores = self.predict(X, qid, group=group)
        index = self._lists("", X, qid, group, len(scores))
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
        *,
        group: ArrayLike | None = None,
        query_weight: Any = None,
        metric: str | None = None,
    ) -> float:
        """Mean of ``metric``, the ranker's own unless given, over queries.

        A query weighs the mean ``sample_weight`` of its rows times its ``query_weight``, 1 without
        them; weights that a ``Dataset`` holds are weights of the training and are not used.
        """
        from rankine.metrics import evaluate, evaluate_on

        weights = {"sample_weight": sample_weight, "query_weight": query_weight}
        metric = metric or self.metric
        if source_kind(X) == "stream":
            X = concat(X)
        if isinstance(X, Dataset):
            self._lists("score", X, qid, group, X.n_rows)
            return float(evaluate_on(X, metric=metric, model=self, **weights))
        if y is None:
            raise SchemaError("score needs labels", fix="Pass y")
        scores = self.predict(X, qid, group=group)
        index = self._lists("score", X, qid, group, len(scores))
        return float(evaluate(metric, y, scores, index, **weights))

    def _lists(self, act: str, X: Any, qid: Any, group: Any, n_rows: int) -> QueryIndex:
        """Queries of the rows of X; refuse to ``act`` on many lists as if they were one."""
        if isinstance(X, Dataset):
            if qid is not None or group is not None:
                raise ParameterError("a Dataset already holds qid", fix="Pass the Dataset alone")
            return X.queries
        if qid is None and group is None:
            qid = take_qid(X)[1]
        elif qid is not None and group is not None:
            raise SchemaError("both qid and group were given", fix="Pass one of them")
        if group is not None:
            return QueryIndex.from_group(group, n_rows)
        if qid is None and act and n_rows > 1 and self.training_["queries"] > 1:
            raise SchemaError(
                f"{type(self).__name__} was fitted to {self.training_['queries']:,} queries, and "
                f"the {n_rows:,} rows to {act} come without query ids",
                fix="Pass qid=, or group= (group=[len(X)] for one list), or a frame with a qid "
                "column; scikit-learn's helpers hand them on by metadata routing "
                "(set_score_request(qid=True))",
            )
        return QueryIndex.from_qid(qid, n_rows)

    def to_model(self) -> LinearModel:
        """The fitted weights as a frozen, savable model; equal trainings give equal files."""
        check_is_fitted(self, "coef_")
        model = LinearModel.from_weights(
            self.coef_,
            **self._features(),
            metric=self.metric,
            parameters={"ranker": self.system, **json_parameters(self)},
            provenance=self._provenance(),
        )
        encoding = self.encoding_
        return model if encoding is None else encoding.finish(model)

    def _features(self) -> dict[str, Any]:
        """What the weights of a model stand for: names of features, and transforms before them."""
        names = getattr(self, "feature_names_in_", None)
        missing = self.scaling_.missing
        scaling = self.scaling_
        if missing is not None and missing.rule == "mean":
            # Features without a weight need none.
            used = {j: x for j, x in zip(missing.columns, missing.values, strict=True)
                    if self.coef_[j] != 0}  # fmt: skip
            kept = MissingValues("mean", tuple(used), tuple(used.values()))
            scaling = replace(scaling, missing=kept)
        return {
            "feature_names": None if names is None else [str(name) for name in names],
            "transforms": scaling.transforms,
        }

    def _shown_weights(self) -> tuple[list[str], NDArray[np.float64]]:
        """Names and sizes of what a notebook shows of the fitted model."""
        names = getattr(self, "feature_names_in_", None)
        used = np.flatnonzero(self.coef_)
        return [str(j) if names is None else str(names[j]) for j in used.tolist()], self.coef_[used]

    def _provenance(self) -> dict[str, Any]:
        """Where a model comes from: data, run, certificate, traces.

        Where a run reports depends on how a stream is cut, and a model file must not: one-pass
        learning tells its own story, at fixed numbers of lists.
        """
        from rankine._version import __version__

        solution = self.solution_
        if "story" in solution.extra:
            stories = {"trace": solution.extra["story"]}
        else:
            checks = [{key: row[key] for key in ("step", "value")} for row in self.evals_]
            stories = {"trace": solution.trace, "validation": checks}
        return {
            "rankine": __version__,
            "training": plain({k: v for k, v in self.training_.items() if k not in TIMES}),
            "n_iter": int(self.n_iter_),
            "stop_reason": solution.stop_reason,
            "certificate": plain(dict(solution.certificate)),
            **{name: pack_trace(rows) for name, rows in stories.items() if rows},
        }

    def _html_repr(self) -> str:
        """Parameters always; the training and the heaviest weights once there are some."""
        from rankine.core.safe_text import html_table, name_of
        from rankine.model.show import weights_html

        diagram: str = estimator_html_repr(self)
        if not hasattr(self, "coef_"):
            return diagram
        shown, sizes = self._shown_weights()
        training, solution = self.training_, self.solution_
        rows: list[tuple[Any, Any]] = [
            ("trained on", f"{training['rows']:,} rows of {training['queries']:,} queries"),
            ("took", f"{self.n_iter_:,} steps, {training['seconds']:,} s, {solution.stop_reason}"),
            ("scaling", describe_scaling(training["scaling"])),
            ("weights", f"{np.count_nonzero(self.coef_):,} of {len(self.coef_):,}"),
        ]
        certificate = ", ".join(f"{key} {value:.4g}" for key, value in solution.certificate.items())
        if certificate:
            rows.append(("certificate", name_of(certificate, 200)))
        rows.append(("heaviest weights", weights_html(shown, sizes)))
        return diagram + html_table(f"fitted {type(self).__name__}", rows)

    # ------------------------------------------------------------------ input
    def _source(
        self, kind: str, X: Any, y: Any, qid: Any, group: Any, weight: Any, query_weight: Any
    ) -> Any:
        """Open what ``fit`` was given."""
        if kind == "memory":
            data = self._dataset(X, y, qid, group, weight, reset=True)
            if data.n_rows == 1:
                raise NoPairsError(
                    "n_samples=1: one row has nothing to be ranked against", fix="Pass more rows"
                )
            return MemorySource(data, query_weight, self._clicks(), getattr(self, "n_threads", 1))
        given = {"y": y, "qid": qid, "group": group, "sample_weight": weight}
        for name, value in given.items():
            if value is not None:
                raise ParameterError(
                    f"a source brings its own labels, query ids and weights; {name}= was given too",
                    fix="Name the columns when scanning (label=, query=, weight=)",
                )
        source = (
            StreamSource(X, query_weight, self._clicks())
            if kind == "stream"
            else PartitionSource(X, self._clicks(), pairs=self._needs_pairs())
        )
        self.n_features_in_ = source.n_features
        self._set_names(source.feature_names)
        return source

    def fit_scaling(self, data: Dataset) -> Scaling:
        """What a fit to these rows does with missing values and scales."""
        return fit_scaling(self._scale(), data, self._missing())

    def _scale(self) -> str | None:
        """How columns are scaled; None where their size does not matter."""
        return check_scale(self.scale) if self.scales else None

    def _missing(self) -> str:
        """What is done with missing values."""
        rule = check_rule(self.missing)
        if rule != "auto":
            if self.takes_missing and rule != "error":
                raise ParameterError(
                    f"missing={rule!r}: {type(self).__name__} has a place of its own for missing "
                    "values in every table",
                    fix="Leave missing='auto', or refuse them (missing='error')",
                )
            return rule
        return "bin" if self.takes_missing else "error"

    def _clicks(self) -> Clicks:
        """How rows are corrected for their positions."""
        inverse = (
            () if self.propensity is None else inverse_propensity(self.propensity, self.max_weight)
        )
        return Clicks(inverse, check_offset(self.position_offset), self._divisor())

    def _divisor(self) -> str:
        """What each query's loss is divided by, see ``Clicks``."""
        return ""

    def _recorded(self, source: Any) -> dict[str, Any]:
        """What a resumed run must share with the interrupted one."""
        parameters = json_parameters(self)
        for name in _NOT_RECORDED:
            parameters.pop(name, None)
        return {
            "ranker": self.system,
            "parameters": parameters,
            "data": source.identity(),
            "n_features": source.n_features,
        }

    def _matrix(self, X: Any, *, reset: bool) -> tuple[Any, Any]:
        """Validated float matrix, NaN where a value is missing, and query ids of a data frame."""
        if is_frame(X):
            values, names, qid = split_frame(X)
            validate_data(self, take_qid(X)[0], reset=reset, skip_check_array=True)
            if 0 in values.shape:
                what = "sample" if len(values) == 0 else "feature"
                raise EmptyDataError(
                    f"a frame with 0 {what}(s) (shape={values.shape}) while a minimum of 1 is "
                    "required",
                    fix="Check how its rows and columns were chosen",
                )
            return check_matrix(values, names, infinite=self.takes_missing), qid
        if isinstance(X, (list, tuple)):
            X = np.asarray(X, dtype=object)
        if getattr(getattr(X, "dtype", None), "kind", "f") in "OmM" and X.ndim == 2 and X.size:
            check_matrix(X, infinite=self.takes_missing)  # scikit-learn takes times as numbers
        try:
            matrix = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                order="C",
                ensure_all_finite="allow-nan",
            )
        except (TypeError, ValueError, OverflowError) as error:
            if np.ndim(X) == 2 and np.size(X):
                try:
                    check_matrix(X)
                except SchemaError as better:
                    raise better from error
            raise
        return matrix, None

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
        if qid is None and group is None:
            qid = found
            if found is None and matrix.shape[0] > _LONG_LIST and reset:
                warnings.warn(
                    f"{matrix.shape[0]:,} rows came without query ids and are ranked as one list. "
                    "Pass qid= or group= where they are many",
                    UserWarning,
                    stacklevel=6,
                )
        labels = np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected.",
                DataConversionWarning,
                stacklevel=3,
            )
            labels = labels.ravel()
        return Dataset.from_arrays(
            matrix,
            labels,
            qid,
            group=group,
            feature_names=getattr(self, "feature_names_in_", None),
            weight=sample_weight,
            infinite=self.takes_missing,
        )

    def _same_columns(self, data: Dataset) -> Dataset:
        """Refuse a dataset whose columns are not those of the fit."""
        if data.n_features != self.n_features_in_:
            raise FeatureMismatchError(
                f"X has {data.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input",
                fix=f"Read the data with n_features={self.n_features_in_}",
            )
        self._same_names(data.feature_names)
        return data

    def _same_names(self, here: Sequence[str] | None) -> None:
        names = getattr(self, "feature_names_in_", None)
        if names is None or here is None:
            return
        unlike = [j for j, name in enumerate(here) if name != names[j]]
        if unlike:
            raise FeatureMismatchError(
                f"column {unlike[0]} is {here[unlike[0]]!r} here and {names[unlike[0]]!r} "
                "in the fit",
                fix="Give the columns in the order of the fit",
            )

    def _set_names(self, names: Sequence[str] | None) -> None:
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _needs_pairs(self) -> bool:
        """Whether lists of one label teach nothing."""
        return True

    def _weighs_lists(self) -> bool:
        """Whether a list of two counts as much as its weight."""
        return False

    def _eval_sets(
        self, given: Any, names: Any, asked: dict[str, Any], many: bool
    ) -> list[tuple[str, Dataset, Any]]:
        """Held-out rows in memory: a name, the rows and what their queries weigh."""
        if given is None:
            if names is None and all(value is None for value in asked.values()):
                return []
            raise ParameterError(
                "eval_names, eval_qid, eval_group and eval_query_weight belong to an eval_set",
                fix="Pass it",
            )
        if isinstance(given, Mapping):
            names, given = list(given), list(given.values())
        sets = given if isinstance(given, list) else [given]
        if names is None:
            names = [f"valid_{k}" for k in range(len(sets))]
        if not sets or len(set(names)) != len(sets):
            raise ParameterError(
                f"{len(sets)} eval sets have the names {names}",
                fix="Pass one name for each, no two alike",
            )
        each = {key: _one_each(f"eval_{key}", value, len(sets)) for key, value in asked.items()}
        data = [
            self._eval_data(*one, many)
            for one in zip(sets, each["qid"], each["group"], strict=True)
        ]
        return list(zip(names, data, each["query_weight"], strict=True))

    def _eval_data(self, given: Any, qid: Any, group: Any, many: bool) -> Dataset:
        if isinstance(given, Dataset):
            return self._same_columns(given)
        kind = source_kind(given)
        if kind == "stream":
            return self._same_columns(concat(given))
        if kind == "partitions":
            raise ParameterError(
                "eval_set is held in memory and cannot be partitions", fix="Pass rankine.load(...)"
            )
        X, y = given
        if many and qid is group is None and take_qid(X)[1] is None:
            raise SchemaError(
                "the training rows have several queries, and those of eval_set no query ids",
                fix="Pass eval_qid=, eval_group=, or a frame with a qid column",
            )
        return self._dataset(X, y, qid, group, None, reset=False)

    def _start(self, given: Any, scaling: Scaling) -> tuple[NDArray[np.float64] | None, int]:
        """Weights to start from, in scaled units, and the steps that they have seen."""
        steps = 0
        if given is None:
            if not (self.warm_start and hasattr(self, "coef_")):
                return None, 0
            given, steps = self.coef_, int(self.n_iter_)
        elif isinstance(given, LinearModel):
            self._same_encoding(given, scaling)
            if given.parameters.get("ranker") == self.system:
                steps = int(given.provenance.get("n_iter", 0))
            given = given.to_dense()
        start = np.asarray(given, dtype=np.float64)
        if start.shape != (self.n_features_in_,):
            raise SchemaError(
                f"coef_init has shape {start.shape} for {self.n_features_in_} features",
                fix="Pass one weight per feature",
            )
        return scaling.unfold(start).copy(), steps

    def _same_encoding(self, model: LinearModel, scaling: Scaling) -> None:
        """Refuse to start from a model whose weights mean something else."""
        if model.n_features != self.n_features_in_:
            raise FeatureMismatchError(
                f"the model to start from has {model.n_features} features, the data "
                f"{self.n_features_in_}",
                fix=f"Read the data with n_features={model.n_features}",
            )
        self._same_names(model.feature_names)
        own = {type(spec).__name__ for spec in scaling.transforms}
        theirs = {type(spec).__name__ for spec in model.transforms} - {"LogColumns"}
        if own != theirs:
            raise FeatureMismatchError(
                "the model to start from was trained with another scaling of lists",
                fix="Train with the same scale",
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.takes_missing or self.missing not in ("auto", "error")
        tags.target_tags.required = True
        return tags


def _one_each(name: str, given: Any, count: int) -> list[Any]:
    """An entry of ``given`` for each eval set; a single set may have its own without a list."""
    if given is None:
        return [None] * count
    listed = isinstance(given, list | tuple) and len(given) == count
    if listed and all(one is None or isinstance(one, Mapping) or np.ndim(one) for one in given):
        return list(given)
    if count == 1:
        return [given]
    raise ParameterError(
        f"{name} has no entry for each of the {count} eval sets", fix="Pass a list of as many"
    )
