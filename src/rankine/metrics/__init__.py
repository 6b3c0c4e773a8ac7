"""Metrics of rankings: one object says gain, cutoff, ties and the value of empty queries.

A new metric is one file that registers a ``Definition`` and answers the questions of its family.
"""

from rankine.core.lazy_import import lazy_attributes
from rankine.metrics import discounted, domination_error, err, pairs, relevant
from rankine.metrics.engine import (
    count_without_value,
    data_columns,
    evaluate,
    evaluate_on,
    random_expectation,
)
from rankine.metrics.metric import DEFINITIONS, Definition, Metric, parse_metric, register

#: The files that register the metrics of the package.
_REGISTERED = (discounted, relevant, err, pairs, domination_error)

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
__getattr__ = lazy_attributes(__name__, {"scorer": "rankine.rankers.search_scorer"})
