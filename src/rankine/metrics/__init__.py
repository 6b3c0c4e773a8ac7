"""Ranking metrics: definitions, conventions (gain, cutoff, ties, empty queries) and evaluation.

A new metric is one module in this package: it registers a ``Definition`` and implements the generic
functions of its family (``rankine.metrics.families``). Importing the package finds it.
"""

from rankine.core.discovery import import_modules
from rankine.core.lazy_import import lazy_attributes
from rankine.metrics.engine import (
    count_without_value,
    data_columns,
    evaluate,
    evaluate_on,
    random_expectation,
)
from rankine.metrics.metric import (
    Definition,
    Metric,
    describe_metrics,
    metric_columns,
    needs_probabilities,
    parse_metric,
    register,
)

import_modules(__name__)

__all__ = [
    "Definition",
    "Metric",
    "count_without_value",
    "data_columns",
    "describe_metrics",
    "evaluate",
    "evaluate_on",
    "metric_columns",
    "needs_probabilities",
    "parse_metric",
    "random_expectation",
    "register",
    "scorer",
]

# Imported on first use: it needs scikit-learn, which evaluating files does not.
__getattr__ = lazy_attributes(__name__, {"scorer": "rankine.rankers.search_scorer"})
