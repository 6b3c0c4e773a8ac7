"""Models read from files, with the methods of a fitted ranker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankine.core.errors import SchemaError
from rankine.data.dataset import Dataset
from rankine.data.frames import take_qid
from rankine.data.query_index import QueryIndex
from rankine.model import LinearModel
from rankine.rankers.inputs import read_query_index
from rankine.rankers.prediction import rank_queries
from rankine.scoring import Scorer
from rankine.transforms.apply import score_dataset

if TYPE_CHECKING:
    from rankine.model.explain import Explanation

__all__ = ["LoadedModel", "load_model"]


def load_model(path: str | Path, *, unknown: str = "error") -> LoadedModel:
    """Load a model file with the methods of a fitted ranker: linear and additive models alike.

    Parameters
    ----------
    path
        Model file.
    unknown
        What to do with a named feature that the model does not have: "error" or "zero" (ignore it).

    Examples
    --------
    >>> import rankine
    >>> model = rankine.LinearModel.from_weights([1.0, -0.5], ["bm25", "age"])
    >>> model.save("model.rankine")
    >>> loaded = rankine.load_model("model.rankine")
    >>> loaded.predict([{"bm25": 2.0}, {"bm25": 1.0, "age": 4.0}]).tolist()
    [2.0, -1.0]
    >>> print(loaded.explain({"bm25": 2.0, "age": 1.0}))
    feature  weight  value  contribution
    bm25          1      2            +2
    age        -0.5      1          -0.5
    score                           +1.5
    """
    return LoadedModel(LinearModel.load(path), unknown=unknown)


class LoadedModel:
    """A model that predicts, ranks and explains like the ranker that trained it.

    Rows may be an array, a sparse matrix, a data frame, a list of dictionaries of named features or
    raw columns, or a ``Dataset``.

    Attributes
    ----------
    model
        Weights and metadata.
    scorer
        Scores single lists in microseconds.
    """

    def __init__(self, model: LinearModel, *, unknown: str = "error") -> None:
        self.model = model
        self.scorer = Scorer(model, unknown=unknown)

    def predict(
        self, X: Any, qid: ArrayLike | None = None, *, group: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Return scores in row order; only their order within a query means anything.

        ``qid`` or ``group`` matters only for models that treat each list separately.
        """
        if isinstance(X, Dataset):
            read_query_index(X, qid, group, X.n_rows)  # raises if there are others as well
            return score_dataset(self.model, X)
        rows = take_qid(X)[0]
        if not self.scorer.treats_lists_separately:
            return self.scorer.score(rows)
        features = self.scorer.features(rows)
        if not isinstance(features, np.ndarray):
            shape = len(features.indptr) - 1, self.model.n_columns
            features = sparse.csr_matrix((features.data, features.indices, features.indptr), shape)
        n_rows = features.shape[0]
        index = read_query_index(X, qid, group, n_rows)
        if index is None:
            if n_rows > 1:
                raise SchemaError(
                    "the model scales each list separately, and the rows come without query ids",
                    fix="Pass qid=, or group= (group=[len(X)] for one list)",
                )
            index = QueryIndex.from_qid(None, n_rows)
        data = Dataset(features, np.zeros(n_rows), index.codes, query_index=index)
        return score_dataset(self.model, data)

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
        scores = self.predict(X, qid, group=group)
        index = read_query_index(X, qid, group, len(scores))
        return rank_queries(scores, index or QueryIndex.from_qid(None, len(scores)), k)

    def explain(self, x: Any) -> Explanation:
        """Explain the score of one row exactly, by the contributions of its columns."""
        if self._encodes_rows:
            return self.scorer.explain([x], 0)
        return self.model.explain(x)

    def explain_pair(self, a: Any, b: Any) -> Explanation:
        """Explain exactly why row ``a`` scores higher or lower than row ``b``."""
        if self._encodes_rows:
            return self.scorer.explain_pair([a, b], 0, 1)
        return self.model.explain_pair(a, b)

    def intervals(self, level: float = 0.95) -> Any:
        """Return the interval of every weight as a table, see ``LinearModel.intervals``."""
        return self.model.intervals(level)

    @property
    def _encodes_rows(self) -> bool:
        """Whether a raw row becomes features first, without the other rows of its list."""
        return bool(self.model.transforms) and not self.scorer.treats_lists_separately

    def __repr__(self) -> str:
        return f"Loaded{self.model!r}"
