"""A metric as scikit-learn's helpers take one."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from rankine.metrics.metric import parse_metric


class SearchScorer(BaseEstimator):
    """``scorer(ranker, X, y, qid=...)``: the mean over lists, larger is better.

    It asks scikit-learn for ``qid``, ``group``, ``sample_weight`` and ``query_weight`` by itself,
    wherever metadata routing is on and they are given.
    """

    __metadata_request__score: ClassVar[dict[str, bool]] = dict.fromkeys(
        ("qid", "group", "sample_weight", "query_weight"), True
    )

    def __init__(self, metric: str = "ndcg@10") -> None:
        self.metric = metric

    def __call__(self, ranker: Any, X: Any, y: ArrayLike | None = None, **lists: Any) -> float:
        """The value; a metric of which less is better has its sign turned."""
        return self.score(ranker, X, y, **lists)

    def score(self, ranker: Any, X: Any, y: ArrayLike | None = None, **lists: Any) -> float:
        """The same under the name that metadata routing knows."""
        value = float(ranker.score(X, y, metric=self.metric, **lists))
        return value if parse_metric(self.metric).larger_is_better else -value


def scorer(metric: str = "ndcg@10") -> SearchScorer:
    """A scorer for ``cross_validate``, ``GridSearchCV`` and their like.

    Parameters
    ----------
    metric
        Such as ``"ndcg@10"``, ``"map"`` or ``"pairwise_error"``.
    """
    parse_metric(metric)
    return SearchScorer(metric)
