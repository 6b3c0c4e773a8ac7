"""Metrics of rankings: one object says gain, cutoff, ties and the value of empty queries.

A new metric is one file that registers a ``Definition`` and answers the questions of its family.
"""

from rankine.core.callable_package import import_on_use
from rankine.metrics import (
    average_precision,
    dcg,
    domination_error,
    err,
    hit_rate,
    kendall,
    mean_ndcg,
    ndcg,
    pairwise_error,
    precision,
    rank_biased_precision,
    recall,
    reciprocal_rank,
    roc_area,
)
from rankine.metrics.engine import (
    count_without_value,
    data_columns,
    evaluate,
    evaluate_on,
    random_expectation,
)
from rankine.metrics.metric import DEFINITIONS, Definition, Metric, parse_metric, register

#: The files that register the metrics of the package.
_REGISTERED = (
    ndcg,
    dcg,
    mean_ndcg,
    average_precision,
    precision,
    recall,
    hit_rate,
    reciprocal_rank,
    rank_biased_precision,
    err,
    roc_area,
    pairwise_error,
    kendall,
    domination_error,
)

__all__ = [
    "DEFINITIONS",
    "Definition",
    "Metric",
    "count_without_value",
    "data_columns",
    "evaluate",
    "evaluate_on",
    "parse_metric",
    "random_expectation",
    "register",
    "scorer",
]

#: It needs scikit-learn, which judging files does not.
__getattr__ = import_on_use(__name__, {"scorer": "rankine.rankers.search_scorer"})
