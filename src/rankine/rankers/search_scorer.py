"""Metrics as scorers of scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from rankine.metrics.metric import parse_metric


class SearchScorer(BaseEstimator):
    """``scorer(ranker, X, y, qid=...)``: the mean over lists, larger is better.

    With metadata routing, scikit-learn passes it ``qid``, ``group``, ``sample_weight`` and
    ``query_weight`` without further requests.
    """

    __metadata_request__score: ClassVar[dict[str, bool]] = dict.fromkeys(
        ("qid", "group", "sample_weight", "query_weight"), True
    )

    def __init__(self, metric: str = "ndcg@10") -> None:
        self.metric = metric

    def __call__(self, ranker: Any, X: Any, y: ArrayLike | None = None, **lists: Any) -> float:
        """Return the metric, negated if smaller values are better."""
        return self.score(ranker, X, y, **lists)

    def score(self, ranker: Any, X: Any, y: ArrayLike | None = None, **lists: Any) -> float:
        """Return the metric; metadata routing calls the scorer by this name."""
        return parse_metric(self.metric).sign * float(
            ranker.score(X, y, metric=self.metric, **lists)
        )


def scorer(metric: str = "ndcg@10") -> SearchScorer:
    """Create a scorer for ``cross_validate``, ``GridSearchCV`` and similar functions.

    Parameters
    ----------
    metric
        Such as ``"ndcg@10"``, ``"map"`` or ``"pairwise_error"``.
    """
    parse_metric(metric)
    return SearchScorer(metric)
