"""The scorer: a model ready to rank lists, immutable and safe to share between threads.

``Scorer`` reads rows in every form; what a model makes of compressed or dense rows is
``LinearScores``, so that another kind of model can stand beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ModelError, ParameterError
from rankine.core.specs import Bins, ListRange, LogColumns, RunScores
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
)
from rankine.scoring.rows import (
    CsrArrays,
    InputIssues,
    NamedRows,
    check_group,
    csr_parts,
    is_list_of_dicts,
    own,
    real_numbers,
    refuse_scores,
)
from rankine.scoring.tables import TableRows, TableScores
from rankine.transforms.log_columns import encoder_of
from rankine.transforms.missing import fill_missing
from rankine.transforms.scaling import normalised_runs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rankine.model import LinearModel
    from rankine.model.explain import Explanation
    from rankine.scoring.explain import ListExplainer
    from rankine.transforms.log_columns import LogEncoder


#: Relative to the largest stored score: sums may be added in another order, nothing more.
_SELF_TEST_TOLERANCE = 1e-9


class Ranking(NamedTuple):
    """Row numbers, best first, and their scores."""

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]


class LinearScores:
    """f(x) = sum_j w_j x_j for rows over the model's features.

    ``starts`` says where each list begins, and the end, where something is done within lists: each
    feature is divided by its range, or missing values are the smallest of their list.
    """

    def __init__(self, model: LinearModel, small: bool | None) -> None:
        self.model = model
        self.missing = model.missing
        self.scales_lists = any(isinstance(spec, ListRange) for spec in model.transforms)
        self.table = build_table(model.indices, model.values, model.n_features, small=small)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """One weight a feature."""
        table = self.table
        return table.values if isinstance(table, DenseTable) else self.model.to_dense()

    def dense(self, rows: NDArray[Any], starts: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Scores of a C-ordered matrix."""
        filled, added = self._filled(rows, starts)
        scores = np.empty(rows.shape[0])
        if not self.scales_lists:
            code = dense_scores(filled, self.weights, scores)
        else:
            assert starts is not None  # noqa: S101 - narrows the type
            model = self.model
            read = filled if model.nnz == rows.shape[1] else np.take(filled, model.indices, axis=1)
            scaled = list_range_values(DenseRows(read), model.nnz, starts)
            code = dense_scores(scaled, own(model.values), scores)
        if code != OK:
            refuse_scores(self.model, filled, scores)
        return scores if added is None else scores + added

    def _filled(self, rows: Any, starts: Any) -> tuple[Any, Any]:
        """Rows without missing values, and what these add to the scores."""
        return (rows, None) if self.missing is None else fill_missing(self.missing, rows, starts)

    def csr(self, parts: CsrArrays, starts: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Scores of compressed rows."""
        scores = np.empty(len(parts.indptr) - 1)
        n_features, added = self.model.n_features, None
        lists = starts if self.scales_lists else None
        # Offsets are checked before anything trusts them; what is missing shows in the scores.
        code = run_csr_kernel(parts, self.table, n_features, lists, scores)
        if self.missing is not None and code in (OK, NOT_FINITE):
            parts, added = self._filled(parts, starts)
            code = run_csr_kernel(parts, self.table, n_features, lists, scores)
        if code == OK:
            return scores if added is None else scores + added
        if code == NOT_FINITE:
            refuse_scores(self.model, parts, scores)
        what = "an index lies outside the features" if code == BAD_INDEX else "offsets are broken"
        raise FeatureMismatchError(
            f"compressed rows do not fit a model of {n_features} features: {what}",
            fix="Read the data with the model's n_features and index base",
        )


class Scorer:
    """A model ready to score.

    f(x) = sum_j w_j x_j, after the model's transforms; per-list scaling sees each list by itself.
    Rows may be a dense array, CSR (anything with ``indptr``, ``indices`` and ``data``), a list of
    dictionaries of named features or raw columns, or a data frame. Scores that are not finite are
    refused with the row and the feature.

    Parameters
    ----------
    model
        A ``LinearModel``.
    unknown
        What to do with a named feature or a raw column that the model does not know: "error", or
        "zero" (taken as absent, and counted in ``issues``).
    strict
        Whether raw rows that lack a column which the weights read are an error too; otherwise the
        column counts as missing values there, and in ``issues``.
    small
        Keep weights in a hash table (True) or in one array (False); None decides by size.

    Examples
    --------
    >>> from rankine import LinearModel, Scorer
    >>> scorer = Scorer(LinearModel.from_weights([1.0, -0.5], ["bm25", "age"]))
    >>> scorer.score([{"bm25": 2.0}, {"bm25": 1.0, "age": 4.0}]).tolist()
    [2.0, -1.0]
    >>> scorer.rank([{"bm25": 2.0}, {"bm25": 9.0}], k=1).indices.tolist()
    [1]
    """

    def __init__(
        self,
        model: LinearModel,
        *,
        unknown: str = "error",
        strict: bool = False,
        small: bool | None = None,
    ) -> None:
        if unknown not in ("error", "zero"):
            raise ParameterError(f"unknown={unknown!r}", fix="Choose 'error' or 'zero'")
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
            "_plain": not model.transforms or tables is not None,
            "_scores": scores,
            "_weights": scores.table.values if only_weights else None,
            "_encoder": encoder,
            "_tables": tables,
            "_n": model.n_columns,
            "_named": named,
        }
        self.__dict__.update(state)
        known = int(scaled) + sum(one is not None for one in (encoder, runs, missing))
        if tables is not None:
            known = 1 + int(tables.grids is not None) + int(encoder is not None)
        if len(model.transforms) != known or (runs is not None and known > 1):
            kinds = ", ".join(type(spec).__name__ for spec in model.transforms)
            raise ModelError(
                f"the scorer cannot run these transforms together: {kinds}",
                fix="Save the model with a version of rankine that made them",
            )

    model: LinearModel
    unknown: str
    strict: bool
    #: What was unknown or missing so far, where a call was given no issues of its own.
    issues: InputIssues
    #: Whether each feature is divided by its range within the list.
    scales_lists: bool
    #: How the scores of retrievers are normalised within the list, where the model is a fusion.
    run_scores: RunScores | None
    _by_list: bool
    _plain: bool
    _scores: LinearScores | TableScores
    #: Of a model that is nothing but weights: scores of a matrix take one call.
    _weights: NDArray[np.float64] | None
    _encoder: LogEncoder | None
    _tables: Tables | None
    _n: int
    _named: NamedRows | TableRows

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Scorer is immutable; cannot set {name!r}")

    @property
    def reads_columns(self) -> bool:
        """Whether named rows are raw columns of a log, and not features."""
        return self._encoder is not None or self._tables is not None

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that the model reads: fetch these and nothing else."""
        if self._encoder is not None:
            return tuple(self._encoder.required)
        if isinstance(self._named, TableRows):
            return self._named.required
        return self.model.weight_names

    def score(
        self, rows: Any, *, group: ArrayLike | None = None, issues: InputIssues | None = None
    ) -> NDArray[np.float64]:
        """Scores in row order.

        Parameters
        ----------
        rows
            One list of candidates, or several one after the other.
        group
            Rows per list where there are several (matters to per-list scaling only).
        issues
            Where to count what is unknown or missing in these rows; None counts in the scorer's.
        """
        if self._plain:
            if type(rows) is np.ndarray:
                if (
                    rows.ndim == 2
                    and rows.shape[1] == self._n
                    and rows.dtype.char in "df"
                    and rows.flags.carray
                ):
                    if self._weights is not None:
                        scores = np.empty(rows.shape[0])
                        if dense_scores(rows, self._weights, scores) == OK:
                            return scores
                    return self._scores.dense(rows, None)
            elif hasattr(rows, "indptr"):
                return self._scores.csr(csr_parts(rows, self._n), None)
            elif is_list_of_dicts(rows):
                return self._named.score(rows, issues or self.issues)
        found = self.features(rows, issues)
        n_rows = len(found) if isinstance(found, np.ndarray) else len(found.indptr) - 1
        if self.run_scores is not None:
            return self._scores.dense(
                self.normalize_run_scores(found, check_group(group, n_rows)), None
            )
        starts = check_group(group, n_rows) if self._by_list else None
        if isinstance(found, np.ndarray):
            return self._scores.dense(found, starts)
        return self._scores.csr(found, starts)

    def rank(
        self, rows: Any, k: int | None = None, *, issues: InputIssues | None = None
    ) -> Ranking:
        """Order one list: row numbers, best first, and their scores; equal scores keep row order.

        Parameters
        ----------
        rows
            One list of candidates.
        k
            How many to return; None returns all.
        issues
            Where to count what is unknown or missing in these rows; None counts in the scorer's.
        """
        if k is not None and k < 0:
            raise ParameterError(f"k={k}", fix="Pass a number of rows, or None for all")
        scores = self.score(rows, issues=issues)
        best = np.argsort(-scores, kind="stable")[:k]
        return Ranking(best, scores[best])

    def features(self, rows: Any, issues: InputIssues | None = None) -> CsrArrays | NDArray[Any]:
        """Rows over the model's features: CSR parts or a dense array; raw columns are encoded."""
        if hasattr(rows, "indptr"):
            return csr_parts(rows, self._n)
        if isinstance(rows, np.ndarray) or (
            isinstance(rows, Sequence) and not (rows and isinstance(rows[0], Mapping))
        ):
            return self._dense_rows(rows)
        return self._named.to_rows(rows, issues or self.issues)

    def explain(self, rows: Any, i: int) -> Explanation:
        """Why row ``i`` of a list has its score, transforms included; exact."""
        return self.explainer(rows).row(i)

    def explain_pair(self, rows: Any, a: int, b: int) -> Explanation:
        """Why row ``a`` of a list stands above row ``b``; exact."""
        return self.explainer(rows).pair(a, b)

    def explainer(self, rows: Any) -> ListExplainer:
        """Explains many rows of one list at the cost of reading it once."""
        from rankine.scoring.explain import ListExplainer

        return ListExplainer(self, rows)

    def self_test(self) -> None:
        """Score the rows stored in the model; ModelError where a score is not as stored.

        A model without stored rows must still score a row of zeros.
        """
        probes = self.model.probes
        if probes is None:
            empty = np.zeros(2, dtype=np.int64)
            self.score(CsrArrays(empty, empty[:0], np.zeros(0)))
            return
        if probes.rows[0].raw is not None:
            scores = self.score([dict(row.raw or {}) for row in probes.rows], issues=InputIssues())
        else:
            ends = np.cumsum([0, *(len(row.indices) for row in probes.rows)])
            indices = np.array([j for row in probes.rows for j in row.indices], dtype=np.int64)
            data = np.array([x for row in probes.rows for x in row.values], dtype=np.float64)
            scores = self.score(CsrArrays(ends.astype(np.int64), indices, data))
        stored = np.array(probes.scores)
        gap = float(np.abs(scores - stored).max())
        if not gap <= _SELF_TEST_TOLERANCE * max(1.0, float(np.abs(stored).max())):
            raise ModelError(
                f"the model's stored rows score up to {gap:.3g} away from their stored scores",
                fix="Save the model again with the version of rankine that serves it",
            )

    def normalize_run_scores(
        self, rows: CsrArrays | NDArray[Any], starts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Normalised scores of retrievers; what a row does not hold (or NaN) is absent."""
        assert self.run_scores is not None  # noqa: S101 - narrows the type
        if isinstance(rows, CsrArrays):
            indptr, indices = rows.indptr, rows.indices
            size = min(len(indices), len(rows.data))
            if (np.diff(indptr) < 0).any() or not 0 <= indptr[0] <= indptr[-1] <= size:
                raise FeatureMismatchError("offsets are broken", fix="Pass valid compressed rows")
            kept = slice(int(indptr[0]), int(indptr[-1]))
            rows = CsrArrays(indptr - indptr[0], indices[kept], rows.data[kept])
            if len(rows.indices) and not 0 <= rows.indices.min() <= rows.indices.max() < self._n:
                raise FeatureMismatchError(
                    f"an index lies outside the {self._n} runs of the fusion",
                    fix="Count features as the fusion's runs",
                )
            if not np.isfinite(rows.data).all():
                owner = np.repeat(np.arange(len(indptr) - 1), np.diff(rows.indptr))
                totals: NDArray[Any] = np.bincount(owner, weights=rows.data)
                refuse_scores(self.model, rows, totals)
        elif np.isinf(rows).any():
            infinite = np.where(np.isinf(rows), rows, 0.0)  # NaN is absent
            refuse_scores(self.model, infinite, np.abs(infinite).sum(axis=1))
        return normalised_runs(self.run_scores, rows, self._n, starts)

    def _dense_rows(self, rows: Any) -> NDArray[Any]:
        try:
            array = np.asarray(rows)
        except ValueError as error:  # rows of different lengths
            raise FeatureMismatchError(
                f"rows are no matrix: {error}", fix="Pass rows x features"
            ) from error
        if array.dtype.char not in "df":
            array = real_numbers(array)
        if array.ndim == 2 and array.shape[1] == self._n:
            return own(array)
        if array.size == 0 and array.ndim <= 2 and len(array) == 0:
            return np.zeros((0, self._n))
        raise FeatureMismatchError(
            f"rows of shape {array.shape} for a model of {self._n} features",
            fix="Pass rows x features; one row alone as [row]",
        )


#: A feature space in which a few weights are kept in a hash table.
_WIDE = 1 + (1 << 12)


def compile_kernels() -> None:
    """Score with every kind of weights, with and without per-list scaling, and with tables."""
    from rankine.model import LinearModel

    rows = CsrArrays(np.array([0, 1, 2]), np.array([0, 0]), np.array([1.0, 2.0]))
    log = LogColumns(numeric=("number",), hashed=("text",), hash_bits=12)
    weights = np.zeros(_WIDE)
    weights[0] = 1.0
    scalings: tuple[tuple[ListRange, ...], ...] = ((), (ListRange(),))
    for transforms in scalings:
        model = LinearModel.from_weights(weights, transforms=transforms)
        raw = LinearModel.from_weights(weights, transforms=(log, *transforms))
        for small in (False, True):
            Scorer(model, small=small).rank(rows)
            Scorer(model, small=small).rank([{"1": 1.0}])
            Scorer(raw, small=small).rank([{"number": 1.0, "text": "a"}])
    tables = Scorer(LinearModel.from_weights(np.ones(3), transforms=(Bins(((0.5,),)),)))
    for dtype in (np.float64, np.float32):
        tables.rank(np.zeros((2, 1), dtype=dtype))
