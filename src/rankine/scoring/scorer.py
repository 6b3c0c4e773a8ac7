"""The scorer: an immutable model that is ready to rank lists, safe to share between threads.

``Scorer`` reads rows in every form. ``LinearScores`` and ``TableScores`` compute the scores of
dense and compressed rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ModelError, ParameterError
from rankine.core.specs import Bins, ListRange, LogColumns, OutcomeCalibration, RunScores
from rankine.kernels.list_range import list_range_values
from rankine.kernels.rows import DenseRows
from rankine.model.tables import Tables, find_tables
from rankine.scoring.kernels import (
    BAD_INDEX,
    NOT_FINITE,
    OK,
    DenseTable,
    build_table,
    dense_scores,
    run_csr_kernel,
    run_scaled_csr_kernel,
)
from rankine.scoring.probability import OutcomeProbabilities, outcome_probabilities
from rankine.scoring.rows import (
    CsrArrays,
    InputIssues,
    NamedRows,
    as_carray,
    checked_csr,
    count_rows,
    csr_parts,
    is_list_of_dicts,
    list_starts,
    misfit,
    raise_not_finite,
    real_numbers,
    rule_columns,
)
from rankine.scoring.tables import TableRows, TableScores
from rankine.transforms.clicks import check_positions
from rankine.transforms.log_columns import encoder_of
from rankine.transforms.missing import fill_missing
from rankine.transforms.scaling import normalised_runs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rankine.model import LinearModel
    from rankine.model.explain import Explanation
    from rankine.reranking import Rules
    from rankine.scoring.explain import ListExplainer
    from rankine.transforms.log_columns import LogEncoder


#: Relative to the largest stored score; only the order of additions may differ.
_SELF_TEST_TOLERANCE = 1e-9


class Ranking(NamedTuple):
    """Row numbers, best first, and their scores."""

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]


class LinearScores:
    """Compute f(x) = sum_j w_j x_j for rows of the model's features.

    ``starts`` holds the start of each list, and the end. It is needed if features are divided by
    their range within lists, or missing values become the smallest of their list.
    """

    def __init__(self, model: LinearModel, small: bool | None) -> None:
        self.model = model
        self.missing = model.missing
        self.scales_lists = any(isinstance(spec, ListRange) for spec in model.transforms)
        self.table = build_table(model.indices, model.values, model.n_features, small=small)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """One weight per feature."""
        if isinstance(self.table, DenseTable):
            return self.table.values
        return self.model.to_dense()

    def dense(self, rows: NDArray[Any], starts: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Score a C-ordered matrix."""
        filled, added = self._filled(rows, starts)
        scores = np.empty(rows.shape[0])
        if not self.scales_lists:
            code = dense_scores(filled, self.weights, scores)
        else:
            assert starts is not None  # noqa: S101 - narrows the type
            model = self.model
            # Ranges are computed only for features with a weight.
            weighted = filled
            if model.nnz != rows.shape[1]:
                weighted = np.take(filled, model.indices, axis=1)
            scaled = list_range_values(DenseRows(weighted), model.nnz, starts)
            code = dense_scores(scaled, as_carray(model.values), scores)
        if code != OK:
            raise_not_finite(self.model, filled, scores)
        return scores if added is None else scores + added

    def _filled(self, rows: Any, starts: Any) -> tuple[Any, Any]:
        """Replace missing values; return the rows and what these values add to the scores."""
        if self.missing is None:
            return rows, None
        return fill_missing(self.missing, rows, starts)

    def csr(self, rows: CsrArrays, starts: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Score compressed rows."""
        scores = np.empty(len(rows.indptr) - 1)
        added = None
        # The first pass checks offsets before anything uses them; missing values make its scores
        # not finite.
        code = self._run_csr(rows, starts, scores)
        if self.missing is not None and code in (OK, NOT_FINITE):
            rows, added = self._filled(rows, starts)
            code = self._run_csr(rows, starts, scores)
        if code == OK:
            return scores if added is None else scores + added
        if code == NOT_FINITE:
            raise_not_finite(self.model, rows, scores)
        reason = "an index is out of range" if code == BAD_INDEX else "offsets are out of order"
        raise misfit(self.model.n_features, reason)

    def _run_csr(self, rows: CsrArrays, starts: Any, out: NDArray[np.float64]) -> int:
        if self.scales_lists:
            return run_scaled_csr_kernel(rows, self.table, self.model.n_features, starts, out)
        return run_csr_kernel(rows, self.table, self.model.n_features, out)


class Scorer:
    """Score and rank lists with a model.

    f(x) = sum_j w_j x_j, after the model's transforms. Rows may be a dense array, CSR (anything
    with ``indptr``, ``indices`` and ``data``), a list of dictionaries of named features or raw
    columns, or a data frame. A score that is not finite raises an error with the row and the
    feature.

    Parameters
    ----------
    model
        A ``LinearModel``.
    unknown
        What to do with a named feature or raw column that the model does not have: "error", or
        "zero" (ignore it and count it in ``issues``).
    strict
        Whether raw rows that lack a column of the model are an error. Otherwise the column is read
        as missing values and counted in ``issues``.
    small
        Store weights in a hash table (True) or in one array (False). Default: by size.

    Examples
    --------
    >>> from rankine import LinearModel, Scorer
    >>> scorer = Scorer(LinearModel.from_weights([1.0, -0.5], ["bm25", "age"]))
    >>> scorer.score([{"bm25": 2.0}, {"bm25": 1.0, "age": 4.0}]).tolist()
    [2.0, -1.0]
    >>> scorer.rank([{"bm25": 2.0}, {"bm25": 9.0}], k=1).indices.tolist()
    [1]
    """

    model: LinearModel
    unknown: str
    strict: bool
    #: Unknown and missing names so far, in calls without ``issues``.
    issues: InputIssues
    #: Whether each feature is divided by its range within the list.
    scales_lists: bool
    #: How the scores of retrievers are normalised within the list, if the model is a fusion.
    run_scores: RunScores | None
    _by_list: bool
    _untransformed: bool
    _scores: LinearScores | TableScores
    #: Weights of a model without transforms, whose dense rows are scored by one kernel call.
    _weights: NDArray[np.float64] | None
    _encoder: LogEncoder | None
    _tables: Tables | None
    _n_columns: int
    _named: NamedRows | TableRows

    def __init__(
        self,
        model: LinearModel,
        *,
        unknown: str = "error",
        strict: bool = False,
        small: bool | None = None,
    ) -> None:
        if unknown not in ("error", "zero"):
            raise ParameterError(
                f"{unknown!r} is not a choice", fix="Choose 'error' or 'zero'", parameter="unknown"
            )
        scaled = any(isinstance(spec, ListRange) for spec in model.transforms)
        missing = model.missing
        runs = next((spec for spec in model.transforms if isinstance(spec, RunScores)), None)
        encoder = encoder_of(model)
        tables = find_tables(model)
        scores: Any = LinearScores(model, small)
        named: Any = NamedRows(model, encoder, unknown, strict)
        only_weights = not model.transforms and isinstance(scores.table, DenseTable)
        if tables is not None:
            scores = TableScores(model, tables)
            named = TableRows(tables, scores, unknown, strict, encoder)
        state = {
            "model": model,
            "unknown": unknown,
            "strict": strict,
            "issues": InputIssues(),
            "scales_lists": scaled,
            "run_scores": runs,
            "_by_list": scaled or (missing is not None and missing.rule == "query_min"),
            "_untransformed": not model.transforms or tables is not None,
            "_scores": scores,
            "_weights": scores.table.values if only_weights else None,
            "_encoder": encoder,
            "_tables": tables,
            "_n_columns": model.n_columns,
            "_named": named,
        }
        # __setattr__ refuses assignments, also these.
        self.__dict__.update(state)

    @property
    def treats_lists_separately(self) -> bool:
        """Whether scores of a row depend on the other rows of its list."""
        return self._by_list or self.run_scores is not None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Scorer is immutable; cannot set {name!r}")

    @property
    def reads_columns(self) -> bool:
        """Whether named rows are raw columns instead of features."""
        return self._encoder is not None or self._tables is not None

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that the model reads."""
        if self._encoder is not None:
            return tuple(self._encoder.required)
        if isinstance(self._named, TableRows):
            return self._named.required
        return self.model.weight_names

    def score(
        self, rows: Any, *, group: ArrayLike | None = None, issues: InputIssues | None = None
    ) -> NDArray[np.float64]:
        """Score rows, in row order.

        Parameters
        ----------
        rows
            One list of candidates, or several consecutive lists.
        group
            Number of rows per list, if there are several (needed for per-list scaling).
        issues
            Where to count unknown and missing names; default: ``self.issues``.
        """
        if group is not None and not (self._by_list or self.run_scores):
            scores = self.score(rows, issues=issues)
            list_starts(group, len(scores))  # checked, although lists do not matter
            return scores
        # Models without transforms skip all checks that only lists need.
        if self._untransformed:
            if type(rows) is np.ndarray:
                if (
                    rows.ndim == 2
                    and rows.shape[1] == self._n_columns
                    and rows.dtype.char in "df"
                    and rows.flags.carray
                    and rows.dtype.isnative
                ):
                    # A server ranks a hundred rows in microseconds, where each call shows.
                    if self._weights is not None:
                        scores = np.empty(rows.shape[0])
                        if dense_scores(rows, self._weights, scores) == OK:
                            return scores
                    # A score is not finite: this call finds the row and the feature for the error.
                    return self._scores.dense(rows, None)
            elif hasattr(rows, "indptr"):
                return self._scores.csr(csr_parts(rows, self._n_columns), None)
            elif is_list_of_dicts(rows):
                return self._named.score(rows, issues or self.issues)
        features = self.features(rows, issues)
        n_rows = count_rows(features)
        if self.run_scores is not None:
            return self._scores.dense(
                self.normalize_run_scores(features, list_starts(group, n_rows)), None
            )
        starts = list_starts(group, n_rows) if self._by_list else None
        # Everything has one of two forms from here on, so kernels exist for two forms only.
        if isinstance(features, np.ndarray):
            return self._scores.dense(features, starts)
        return self._scores.csr(features, starts)

    def rank(
        self,
        rows: Any,
        k: int | None = None,
        *,
        rules: Rules | None = None,
        columns: Mapping[str, Any] | None = None,
        time: float | None = None,
        issues: InputIssues | None = None,
    ) -> Ranking:
        """Rank one list: return row numbers, best first, and scores. Ties keep the row order.

        Parameters
        ----------
        rows
            One list of candidates.
        k
            Number of rows to return; default: all.
        rules
            Rules that the ranking follows (``rankine.Rules``); the scores do not change.
        columns
            Columns that the rules read and ``rows`` does not have, one value per row.
        time
            Seconds since 1970 at which the list is shown, for rules with a period; default: now.
        issues
            Where to count unknown and missing names; default: ``self.issues``.
        """
        if k is not None and k < 0:
            raise ParameterError(
                f"{k} is negative", fix="Pass a number of rows, or None for all", parameter="k"
            )
        scores = self.score(rows, issues=issues)
        if rules is None:
            # A stable sort: the same request gives the same ranking on every machine.
            best = np.argsort(-scores, kind="stable")[:k]
        else:
            best = rules.rank(scores, rule_columns(rows, columns or {}), k, time=time).order
        return Ranking(best, scores[best])

    def probability(
        self,
        rows: Any,
        positions: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        issues: InputIssues | None = None,
    ) -> NDArray[np.float64]:
        """Compute the probability of the outcome that the model is calibrated for.

        Parameters
        ----------
        rows, group, issues
            As for ``score``.
        positions
            Position at which each row is displayed, from 1; default: the most examined one.
        """
        scores = self.score(rows, group=group, issues=issues)
        starts = list_starts(group, len(scores))
        if positions is not None:
            positions = check_positions(positions)
            if len(positions) != len(scores):
                raise ParameterError(
                    f"{len(positions)} positions for {len(scores)} rows",
                    fix="Pass one position per row",
                    parameter="positions",
                )
        return self.probabilities(scores, starts, positions)

    @cached_property
    def probabilities(self) -> OutcomeProbabilities:
        """Function of scores, starts of lists and positions; an error without a calibration."""
        return outcome_probabilities(self.model)

    def features(self, rows: Any, issues: InputIssues | None = None) -> CsrArrays | NDArray[Any]:
        """Return rows as features, compressed or dense; raw columns are encoded."""
        if hasattr(rows, "indptr") or hasattr(rows, "tocsr"):
            return checked_csr(csr_parts(rows, self._n_columns), self._n_columns)
        if isinstance(rows, np.ndarray) or (
            isinstance(rows, Sequence) and not (rows and isinstance(rows[0], Mapping))
        ):
            return self._dense_rows(rows)
        return self._named.to_rows(rows, issues or self.issues)

    def explain(self, rows: Any, i: int) -> Explanation:
        """Explain the score of row ``i`` of a list exactly, transforms included."""
        return self.explainer(rows).row(i)

    def explain_pair(self, rows: Any, a: int, b: int) -> Explanation:
        """Explain the difference of the scores of rows ``a`` and ``b`` of a list exactly."""
        return self.explainer(rows).pair(a, b)

    def explainer(self, rows: Any) -> ListExplainer:
        """Return an object that explains many rows of one list, which is read once."""
        from rankine.scoring.explain import ListExplainer

        return ListExplainer(self, rows)

    def self_test(self) -> None:
        """Score the rows stored in the model; raise ModelError if scores differ.

        A model without stored rows must score a row of zeros.
        """
        probes = self.model.probes
        if probes is None:
            # This runs the kernels at least, before the first request does.
            empty = np.zeros(2, dtype=np.int64)
            self.score(CsrArrays(empty, empty[:0], np.zeros(0)))
            return
        # Probes of raw columns test the encoder as well as the weights.
        if probes.rows[0].raw is not None:
            scores = self.score([dict(row.raw or {}) for row in probes.rows], issues=InputIssues())
        else:
            ends = np.cumsum([0, *(len(row.indices) for row in probes.rows)])
            indices = np.array([j for row in probes.rows for j in row.indices], dtype=np.int64)
            data = np.array([x for row in probes.rows for x in row.values], dtype=np.float64)
            scores = self.score(CsrArrays(ends.astype(np.int64), indices, data))
        stored = np.array(probes.scores)
        difference = float(np.abs(scores - stored).max())
        if not difference <= _SELF_TEST_TOLERANCE * max(1.0, float(np.abs(stored).max())):
            raise ModelError(
                f"scores of stored rows differ by up to {difference:.3g} from the stored scores",
                fix="Save the model again with the version of rankine that serves it",
            )

    def normalize_run_scores(
        self, rows: CsrArrays | NDArray[Any], starts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Normalise scores of retrievers within lists; NaN and values not stored are absent."""
        assert self.run_scores is not None  # noqa: S101 - narrows the type
        if isinstance(rows, CsrArrays):
            if not np.isfinite(rows.data).all():
                owner = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
                totals: NDArray[Any] = np.bincount(owner, weights=rows.data)
                raise_not_finite(self.model, rows, totals)
        elif np.isinf(rows).any():
            infinite = np.where(np.isinf(rows), rows, 0.0)  # NaN is absent
            raise_not_finite(self.model, infinite, np.abs(infinite).sum(axis=1))
        return normalised_runs(self.run_scores, rows, self._n_columns, starts)

    def _dense_rows(self, rows: Any) -> NDArray[Any]:
        try:
            array = np.asarray(rows)
        except ValueError as error:  # rows of different lengths
            raise FeatureMismatchError(
                f"rows are not a matrix: {error}", fix="Pass rows x features"
            ) from error
        if array.dtype.char not in "df":
            array = real_numbers(array)
        if array.ndim == 2 and array.shape[1] == self._n_columns:
            return as_carray(array)
        # An empty list has no second dimension, and is a list all the same.
        if array.size == 0 and array.ndim <= 2 and len(array) == 0:
            return np.zeros((0, self._n_columns))
        raise FeatureMismatchError(
            f"rows have shape {array.shape}, and the model has {self._n_columns} features",
            fix="Pass rows x features; a single row as [row]",
        )


#: Number of features from which a few weights can be stored in a hash table.
_MIN_HASHED = 1 + (1 << 12)


def compile_kernels() -> None:
    """Compile all kernels by scoring small lists with every kind of model."""
    from rankine.model import LinearModel

    rows = CsrArrays(np.array([0, 1, 2]), np.array([0, 0]), np.array([1.0, 2.0]))
    log = LogColumns(numeric=("number",), hashed=("text",), hash_bits=12)
    weights = np.zeros(_MIN_HASHED)
    weights[0] = 1.0
    scalings: tuple[tuple[ListRange, ...], ...] = ((), (ListRange(),))
    for transforms in scalings:
        model = LinearModel.from_weights(weights, transforms=transforms)
        raw = LinearModel.from_weights(weights, transforms=(log, *transforms))
        for small in (False, True):
            Scorer(model, small=small).rank(rows)
            Scorer(model, small=small).rank([{"1": 1.0}])
            Scorer(raw, small=small).rank([{"number": 1.0, "text": "a"}])
    curve = OutcomeCalibration(outcome="", scores=(0.0, 1.0), logits=(0.0, 1.0), tails=(1.0, 1.0))
    OutcomeProbabilities(curve)(np.zeros(2))
    tables = Scorer(LinearModel.from_weights(np.ones(3), transforms=(Bins(((0.5,),)),)))
    for dtype in (np.float64, np.float32):
        tables.rank(np.zeros((2, 1), dtype=dtype))
