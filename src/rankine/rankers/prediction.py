"""Prediction, ranking and scoring of a fitted ranker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankine.core.errors import SchemaError
from rankine.core.specs import MissingValues
from rankine.data.dataset import Dataset, concat, row_scores
from rankine.data.frames import in_memory, is_frame
from rankine.data.query_index import QueryIndex
from rankine.rankers.inputs import FittedColumns, InputsMixin, read_matrix, read_query_index
from rankine.rankers.sources import StreamSource, classify
from rankine.transforms.apply import transformed_scores
from rankine.transforms.missing import refuse_missing

if TYPE_CHECKING:
    from rankine.transforms.scaling import Scaling

_QUERY_MIN = MissingValues("query_min")


def rank_queries(
    scores: NDArray[np.float64], index: QueryIndex, k: int | None
) -> dict[Any, NDArray[np.int64]]:
    """Return row numbers of each query, best first, at most ``k``; ties keep row order."""
    ranked: dict[Any, NDArray[np.int64]] = {}
    for q, query_id in enumerate(index.ids.tolist()):
        rows = index.rows_of(q)
        # A stable sort keeps the row order of equal scores.
        ranked[query_id] = rows[np.argsort(-scores[rows], kind="stable")][:k]
    return ranked


class PredictionMixin(InputsMixin):
    """``predict``, ``rank`` and ``score``."""

    metric: str
    coef_: NDArray[np.float64]
    scaling_: Scaling
    training_: dict[str, Any]

    def predict(
        self, X: Any, qid: ArrayLike | None = None, *, group: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Return scores in row order; only their order within a query means anything.

        ``qid`` or ``group`` matters only for ``scale="query"`` and ``missing="query_min"``, which
        treat each list separately.
        """
        X = in_memory(X)
        matrix = self._prediction_matrix(X)
        scaling = self.scaling_
        if not scaling.transforms:
            # All of the scaling is folded into the weights.
            refuse_missing(matrix, getattr(self, "feature_names_in_", None), scoring=True)
            return row_scores(matrix, self.coef_)
        purpose = None
        if scaling.kind == "query":
            purpose = "predict with scale='query'"
        elif scaling.missing == _QUERY_MIN:
            purpose = "predict with missing='query_min'"
        index = self._query_index(X, qid, group, matrix.shape[0], purpose)
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
        """Return row numbers of each query, best first, at most ``k``; ties keep row order.

        Without ``qid`` and ``group`` all rows are the candidates of one query, number 0.
        """
        X = in_memory(X)
        scores = self.predict(X, qid, group=group)
        index = self._query_index(X, qid, group, len(scores))
        return rank_queries(scores, index, k)

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
        """Return the mean of ``metric``, by default the ranker's own, over queries.

        A query weighs the mean ``sample_weight`` of its rows times its ``query_weight``, 1 without
        them; weights in a ``Dataset`` are weights of the training and are not used.
        """
        from rankine.metrics import evaluate, evaluate_on

        weights = {"sample_weight": sample_weight, "query_weight": query_weight}
        metric = metric or self.metric
        if classify(X) is StreamSource:
            X = concat(X)
        if isinstance(X, Dataset):
            read_query_index(X, qid, group, X.n_rows)  # raises if there are others as well
            return float(evaluate_on(X, metric=metric, model=self, **weights))
        if y is None:
            raise SchemaError("score needs labels", fix="Pass y")
        X = in_memory(X)
        scores = self.predict(X, qid, group=group)
        index = self._query_index(X, qid, group, len(scores), "score")
        return float(evaluate(metric, y, scores, index, **weights))

    def _prediction_matrix(self, X: Any) -> Any:
        check_is_fitted(self, "coef_")
        log_record = getattr(self, "log_record_", None)
        if log_record is not None and is_frame(X):
            X = log_record.encoding.read_frame(X)
        estimator: Any = self
        if isinstance(X, Dataset):
            return self._align_columns(X, FittedColumns.from_estimator(estimator), log_record).X
        return read_matrix(estimator, X, reset=False)[0]

    def _query_index(
        self, X: Any, qid: Any, group: Any, n_rows: int, purpose: str | None = None
    ) -> QueryIndex:
        """Return the queries of rows; by default all rows are one query.

        With a ``purpose`` for which queries matter, raise instead of treating many lists as one.
        """
        index = read_query_index(X, qid, group, n_rows)
        if index is not None:
            return index
        if purpose is not None and n_rows > 1 and self.training_["queries"] > 1:
            raise SchemaError(
                f"{type(self).__name__} was fitted to {self.training_['queries']:,} queries, and "
                f"the {n_rows:,} rows to {purpose} come without query ids",
                fix="Pass qid=, or group= (group=[len(X)] for one list), or a frame with a qid "
                "column; scikit-learn's helpers hand them on by metadata routing "
                "(set_score_request(qid=True))",
            )
        return QueryIndex.from_qid(None, n_rows)
