"""Parse list objectives such as ``"ndcg@10"`` into specifications for kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_choice, check_not_negative
from rankine.core.errors import ParameterError
from rankine.kernels.lists import (
    AveragePrecisionGain,
    DcgGain,
    RecallGain,
    ReciprocalRankGain,
)
from rankine.losses.base import pair_loss_names, pair_loss_spec
from rankine.losses.lists import AllPairs, LambdaWeighted, Pointwise, PointwiseSquared
from rankine.metrics.gains import (
    MAX_EXP_LABEL,
    cutoffs,
    discounts,
    flag_column,
    gain_values,
    relevance,
)

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.metrics import Metric

NO_CUTOFF = np.iinfo(np.int64).max


def _dcg_gain(metric: Metric, longest: int) -> Any:
    return DcgGain(discounts(str(metric.discount), max(longest, 1)), metric.name == "ndcg")


#: Metrics that can be trained for: those whose change, when two items change places, takes O(1).
#: Each maps (metric, length of the longest list) to the kernel's specification. A new entry is a
#: new objective, also for tuning.
METRIC_OBJECTIVES: dict[str, Callable[[Metric, int], Any]] = {
    "ndcg": _dcg_gain,
    "dcg": _dcg_gain,
    "recall": lambda _metric, _longest: RecallGain(),
    "mrr": lambda _metric, _longest: ReciprocalRankGain(),
    "map": lambda _metric, _longest: AveragePrecisionGain(),
}


@dataclass(frozen=True)
class ListObjective:
    """The loss of a list, independent of any data."""

    #: ``"pairwise"``, ``"pointwise"`` or one of ``METRIC_OBJECTIVES``.
    name: str
    #: The metric with its cutoff, gain, discount and threshold; None for the first two names.
    metric: Metric | None
    #: Name of a pair loss; ``"squared"`` with ``"pointwise"`` is regression on the labels.
    loss: str
    #: Margin of the pair loss, if it has one.
    margin: float
    #: Whether |Delta| is measured at the ranking by label instead of the model's.
    rank_by_label: bool

    def spec(self, longest: int) -> Any:
        """Create the kernel's specification, for lists of up to ``longest`` items."""
        if self.name == "pointwise" and self.loss == "squared":
            return PointwiseSquared()
        loss = pair_loss_spec(self.loss, self.margin)
        if self.name == "pointwise":
            return Pointwise(loss)
        if self.metric is None:
            return AllPairs(loss)
        gain = METRIC_OBJECTIVES[self.name](self.metric, longest)
        return LambdaWeighted(loss, gain, self.rank_by_label)

    def levels(self, data: Dataset) -> NDArray[np.float64]:
        """Return the values compared within a list, by row: gains, relevance or labels."""
        if self.metric is None:
            return data.y
        if self.name in ("ndcg", "dcg"):
            levels = _gains(str(self.metric.gain), data)
        else:
            levels = relevance(data.y, float(self.metric.threshold or 0.0))
        displayed = self._displayed(data)
        if displayed is not None:
            levels = np.where(displayed, levels, 0.0)
        return levels

    def row_weights(self, data: Dataset) -> NDArray[np.float64] | None:
        """Return row weights, 0 for items that were not displayed; None if all are 1."""
        weights = data.weight
        displayed = self._displayed(data)
        if displayed is None:
            return weights
        if weights is None:
            return displayed.astype(np.float64)
        return np.where(displayed, weights, 0.0)

    def _displayed(self, data: Dataset) -> NDArray[np.bool_] | None:
        """Return which items were displayed; None without such a column."""
        if self.metric is None:
            return None
        return flag_column(self.metric.displayed, data.columns, data.n_rows)

    def cutoffs(self, data: Dataset) -> NDArray[np.int64]:
        """Return the cutoff of each list."""
        cutoff = None if self.metric is None else self.metric.cutoff
        if cutoff is None:
            return np.full(data.n_queries, NO_CUTOFF, dtype=np.int64)
        return cutoffs(cutoff, data.queries, data.columns)


def objective_names() -> tuple[str, ...]:
    """Return all objectives over pairs, with the cutoff 10 if the metric requires one."""
    from rankine.metrics.metric import DEFINITIONS

    required = {name for name, metric in DEFINITIONS.items() if metric.cutoff == "required"}
    names = (f"{name}@10" if name in required else name for name in METRIC_OBJECTIVES)
    return ("pairwise", *names)


def parse_objective(
    text: str,
    *,
    loss: str = "logistic",
    margin: float = 1.0,
    delta: str = "model",
) -> ListObjective:
    """Parse ``"pairwise"``, ``"pointwise"`` or a metric such as ``"ndcg@5:discount=paper"``."""
    name, metric = text, None
    if text not in ("pairwise", "pointwise"):
        metric = _parse_metric(text)
        name = metric.name
    check_choice("loss", loss, pair_loss_names())
    check_choice("delta", delta, ("model", "target"))
    check_not_negative("margin", margin)
    return ListObjective(name, metric, loss, margin, delta == "target")


def _parse_metric(text: str) -> Metric:
    from rankine.metrics import parse_metric

    try:
        metric = parse_metric(text)
    except ParameterError as error:
        # The text is that of ``objective``; an error of ``metric`` would name another option.
        raise ParameterError(error.reason, fix=error.fix, parameter="objective") from error
    if metric.label is not None:
        raise ParameterError(
            f"{text!r} replaces the labels, which training reads from the data",
            parameter="objective",
            fix="Leave label=... out, and name the column as the label of the data",
        )
    if metric.name not in METRIC_OBJECTIVES or (metric.name == "map" and metric.cutoff is not None):
        names = ", ".join(METRIC_OBJECTIVES)
        raise ParameterError(
            f"{text!r} cannot be trained for",
            parameter="objective",
            fix=f"Choose pairwise, pointwise, {names}; @k or @COLUMN except for map",
        )
    return metric


def _gains(gain: str, data: Dataset) -> NDArray[np.float64]:
    """Return gains by row; ``gain`` is "exp", "linear", a table "0,1,3" or a column's name."""
    if gain == "exp":
        return _exponential_gains(_shift_to_zero(data))
    labels = _shift_to_zero(data) if gain == "linear" else data.y
    return gain_values(gain, labels, data.columns)


def _shift_to_zero(data: Dataset) -> NDArray[np.float64]:
    """Return labels raised so that the lowest is 0 in each list that has negative ones."""
    if data.n_rows == 0 or data.y.min() >= 0:
        return data.y
    index = data.queries
    lowest = np.minimum.reduceat(index.gather(data.y), index.starts[:-1])
    return data.y - np.minimum(lowest, 0.0)[index.codes]


def _exponential_gains(labels: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(labels) and labels.max() > MAX_EXP_LABEL:
        raise ParameterError(
            f"a label spans {labels.max():g}, but the exponential gain 2^label - 1 is limited to "
            f"labels up to {MAX_EXP_LABEL:g}",
            parameter="objective",
            fix="Train for 'ndcg:gain=linear' or 'pairwise', or rescale the labels",
        )
    return np.exp2(labels) - 1.0
