"""The scorer: a model ready to rank lists, immutable and safe to share between threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ModelError, ParameterError
from rankine.core.specs import ListRange
from rankine.kernels.list_range import list_range_values
from rankine.kernels.rows import DenseRows
from rankine.scoring.kernels import OK, dense_scores
from rankine.scoring.lists import check_group, csr_parts, own, refuse_scores, run_csr
from rankine.scoring.lookup import DenseTable, Table, build_table
from rankine.scoring.named import NamedRows
from rankine.scoring.table import NamedTable
from rankine.transforms.encoders import FeatureSpace, encoder_for

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rankine.model import LinearModel
    from rankine.model.explain import Explanation
    from rankine.scoring.explain import ListExplainer
    from rankine.scoring.lists import Parts
    from rankine.transforms.encoders import ColumnEncoder

__all__ = ["Ranking", "Scorer"]


class Ranking(NamedTuple):
    """Row numbers, best first, and their scores."""

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]


class Scorer:
    """A model ready to score.

    f(x) = sum_j w_j x_j, after the model's transforms; per-list scaling sees each list by itself.
    Rows may be a dense array, CSR (anything with ``indptr``, ``indices`` and ``data``), a list of
    dictionaries of named features or raw columns, a ``NamedTable``, or a data frame. Scores that
    are not finite are refused with the row and the feature.

    Parameters
    ----------
    model
        A ``LinearModel``.
    unknown
        What to do with a named feature that the model has never seen: "error", or "zero" (counted
        in ``unknown_count``).
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
        self, model: LinearModel, *, unknown: str = "error", small: bool | None = None
    ) -> None:
        if unknown not in ("error", "zero"):
            raise ParameterError(f"unknown={unknown!r}", fix="Choose 'error' or 'zero'")
        scaled = any(isinstance(spec, ListRange) for spec in model.transforms)
        space = FeatureSpace(model.n_features, model.indices, model.feature_names)
        encoder = encoder_for(model.transforms, space)
        table = build_table(model.indices, model.values, model.n_features, small=small)
        plain = not model.transforms
        state = {
            "model": model,
            "unknown": unknown,
            "scales_lists": scaled,
            "_plain": plain,
            "_table": table,
            "_encoder": encoder,
            "_n": model.n_features,
            "_named": NamedRows(model, encoder, unknown),
        }
        self.__dict__.update(state)
        if len(model.transforms) != int(scaled) + int(encoder is not None):
            kinds = ", ".join(type(spec).__name__ for spec in model.transforms)
            raise ModelError(
                f"the scorer cannot run these transforms together: {kinds}",
                fix="Save the model with a version of rankine that made them",
            )

    model: LinearModel
    unknown: str
    #: Whether each feature is divided by its range within the list.
    scales_lists: bool
    _plain: bool
    _table: Table
    _encoder: ColumnEncoder | None
    _n: int
    _named: NamedRows

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Scorer is immutable; cannot set {name!r}")

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        table = self._table
        return table.values if isinstance(table, DenseTable) else self.model.to_dense()

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that the model reads: fetch these and nothing else."""
        if self._encoder is not None:
            return tuple(self._encoder.required)
        return self.model.weight_names

    @property
    def unknown_count(self) -> int:
        """Unknown features met so far and counted as zero."""
        return self._named.unknown_count

    def score(self, rows: Any, *, group: ArrayLike | None = None) -> NDArray[np.float64]:
        """Scores in row order.

        Parameters
        ----------
        rows
            One list of candidates, or several one after the other.
        group
            Rows per list where there are several (matters to per-list scaling only).
        """
        if self._plain:
            if type(rows) is np.ndarray:
                if (
                    rows.ndim == 2
                    and rows.shape[1] == self._n
                    and rows.dtype.char in "df"
                    and rows.flags.carray
                ):
                    scores = np.empty(rows.shape[0])
                    if dense_scores(rows, self._weights, scores) == OK:
                        return scores
                    refuse_scores(self.model, rows, scores)
            elif hasattr(rows, "indptr"):
                return run_csr(csr_parts(rows, self._n), self._table, self.model, None)
        return self._score_any(rows, group)

    def rank(self, rows: Any, k: int | None = None) -> Ranking:
        """Order one list: row numbers, best first, and their scores; equal scores keep row order.

        Parameters
        ----------
        rows
            One list of candidates.
        k
            How many to return; None returns all.
        """
        if k is not None and k < 0:
            raise ParameterError(f"k={k}", fix="Pass a number of rows, or None for all")
        scores = self.score(rows)
        best = np.argsort(-scores, kind="stable")[:k]
        return Ranking(best, scores[best])

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
        """Score the rows stored in the model; ModelError where a score is not as stored."""
        from rankine.scoring.self_test import self_test

        self_test(self)

    # ------------------------------------------------------------------ storage by storage
    def features(self, rows: Any) -> Parts | NDArray[Any]:
        """Rows over the model's features: CSR parts or a dense array; raw columns are encoded."""
        if hasattr(rows, "indptr"):
            return csr_parts(rows, self._n)
        if isinstance(rows, np.ndarray) or (
            isinstance(rows, Sequence) and not (rows and isinstance(rows[0], Mapping))
        ):
            return self._dense_rows(rows)
        return self._named.to_csr(rows)

    def _score_any(self, rows: Any, group: Any) -> NDArray[np.float64]:
        if not self.scales_lists and self._encoder is None:
            if isinstance(rows, NamedTable):
                return self._named.score_table(rows)
            if self._named.accepts(rows):
                return self._named.score(rows)
        found = self.features(rows)
        if isinstance(found, np.ndarray):
            scores = np.empty(found.shape[0])
            if self.scales_lists:
                starts = check_group(group, len(scores))
                nnz = self.model.nnz
                read = found if nnz == self._n else np.take(found, self.model.indices, axis=1)
                scaled = list_range_values(DenseRows(read), nnz, starts)
                code = dense_scores(scaled, own(self.model.values), scores)
            else:
                code = dense_scores(found, self._weights, scores)
            if code != OK:
                refuse_scores(self.model, found, scores)
            return scores
        lists = check_group(group, len(found.indptr) - 1) if self.scales_lists else None
        return run_csr(found, self._table, self.model, lists)

    def _dense_rows(self, rows: Any) -> NDArray[Any]:
        try:
            array = np.asarray(rows)
        except ValueError as error:  # rows of different lengths
            raise FeatureMismatchError(
                f"rows are no matrix: {error}", fix="Pass rows x features"
            ) from error
        if array.dtype.char not in "df":
            if array.dtype.kind not in "biuf" and array.size:
                raise FeatureMismatchError(
                    f"rows hold {array.dtype}, not numbers", fix="Pass numbers, or named features"
                )
            array = array.astype(np.float64)
        if array.ndim == 2 and array.shape[1] == self._n:
            return own(array)
        if array.size == 0 and array.ndim <= 2 and len(array) == 0:
            return np.zeros((0, self._n))
        raise FeatureMismatchError(
            f"rows of shape {array.shape} for a model of {self._n} features",
            fix="Pass rows x features; one row alone as [row]",
        )
