"""From the words of an objective (``"ndcg@10"``, ``"recall@shown"``) to what the kernels read."""

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
    UnitGain,
)
from rankine.losses.base import pair_loss_names, pair_loss_spec
from rankine.losses.lists import LambdaWeighted, Pointwise, PointwiseSquared
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


#: Metrics whose exchange of two items is known in O(1): name -> maker of the kernel's spec from the
#: metric and the longest list. One more entry is one more objective, also for tuning.
METRIC_OBJECTIVES: dict[str, Callable[[Metric, int], Any]] = {
    "ndcg": _dcg_gain,
    "dcg": _dcg_gain,
    "recall": lambda _metric, _longest: RecallGain(),
    "mrr": lambda _metric, _longest: ReciprocalRankGain(),
    "map": lambda _metric, _longest: AveragePrecisionGain(),
}


@dataclass(frozen=True)
class ListObjective:
    """What a list's loss is, before any data is seen."""

    #: ``"pairwise"``, ``"pointwise"`` or one of ``METRIC_OBJECTIVES``.
    name: str
    #: Cutoff, gain, discount and threshold of a metric; None for the first two.
    metric: Metric | None
    #: Name of a pair loss; ``"squared"`` with ``"pointwise"`` is regression on the labels.
    loss: str
    #: Of a loss that has one.
    margin: float
    #: Whether |Delta| is measured at the ranking by label instead of the model's.
    target: bool

    def spec(self, longest: int) -> Any:
        """The kernel's form, for lists of up to ``longest`` items."""
        if self.name == "pointwise" and self.loss == "squared":
            return PointwiseSquared()
        loss = pair_loss_spec(self.loss, self.margin)
        if self.name == "pointwise":
            return Pointwise(loss)
        return LambdaWeighted(loss, self._gain(longest), self.target)

    def _gain(self, longest: int) -> Any:
        return (
            UnitGain()
            if self.metric is None
            else METRIC_OBJECTIVES[self.name](self.metric, longest)
        )

    def levels(self, data: Dataset) -> NDArray[np.float64]:
        """What is compared within a list, by row: gains, relevance or the labels themselves."""
        if self.metric is None:
            return data.y
        if self.name in ("ndcg", "dcg"):
            levels = _gains(str(self.metric.gain), data)
        else:
            levels = relevance(data.y, float(self.metric.threshold or 0.0))
        shown = self._displayed(data)
        return levels if shown is None else np.where(shown, levels, 0.0)

    def row_weights(self, data: Dataset) -> NDArray[np.float64] | None:
        """Weights by row; an item that was not displayed forms no pair. None: all 1."""
        weights = data.weight
        shown = self._displayed(data)
        if shown is None:
            return weights
        return shown.astype(np.float64) if weights is None else np.where(shown, weights, 0.0)

    def _displayed(self, data: Dataset) -> NDArray[np.bool_] | None:
        if self.metric is None:
            return None
        return flag_column(self.metric.displayed, data.columns, data.n_rows)

    def cutoffs(self, data: Dataset) -> NDArray[np.int64]:
        """The cutoff of each list."""
        cutoff = None if self.metric is None else self.metric.cutoff
        if cutoff is None:
            return np.full(data.n_queries, NO_CUTOFF, dtype=np.int64)
        return cutoffs(cutoff, data.queries, data.columns)


def objective_names() -> tuple[str, ...]:
    """Every objective over pairs, with a cutoff where the metric needs one."""
    from rankine.metrics import DEFINITIONS

    needing = {name for name, known in DEFINITIONS.items() if known.cutoff == "required"}
    return ("pairwise", *(f"{name}@10" if name in needing else name for name in METRIC_OBJECTIVES))


def parse_objective(
    text: str,
    *,
    loss: str = "logistic",
    margin: float = 1.0,
    delta: str = "model",
) -> ListObjective:
    """Read ``"pairwise"``, ``"pointwise"`` or a metric such as ``"ndcg@5:discount=paper"``."""
    metric = None if text in ("pairwise", "pointwise") else _metric(text)
    name = text if metric is None else metric.name
    check_choice("loss", loss, pair_loss_names())
    check_choice("delta", delta, ("model", "target"))
    check_not_negative("margin", margin)
    return ListObjective(name, metric, loss, margin, delta == "target")


def _metric(text: str) -> Metric:
    from rankine.metrics import parse_metric

    metric = parse_metric(text)
    if metric.name not in METRIC_OBJECTIVES or (metric.name == "map" and metric.cutoff is not None):
        raise ParameterError(
            f"objective={text!r} cannot be trained for",
            fix=f"Choose pairwise, pointwise, {', '.join(METRIC_OBJECTIVES)}; @k or @COLUMN except for map",
        )
    return metric


def _gains(kind: str, data: Dataset) -> NDArray[np.float64]:
    """Gains by row; ``kind`` is "exp", "linear", a table "0,1,3" or the name of a column."""
    if kind == "exp":
        return _exponential(_from_zero(data))
    labels = _from_zero(data) if kind == "linear" else data.y
    return gain_values(kind, labels, data.columns)


def _from_zero(data: Dataset) -> NDArray[np.float64]:
    """Labels, raised within the lists that have negative ones so that the lowest is 0."""
    if data.n_rows == 0 or data.y.min() >= 0:
        return data.y
    index = data.queries
    lowest = np.minimum.reduceat(index.gather(data.y), index.starts[:-1])
    return data.y - np.minimum(lowest, 0.0)[index.codes]


def _exponential(labels: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(labels) and labels.max() > MAX_EXP_LABEL:
        raise ParameterError(
            f"a label spans {labels.max():g}, and 2^label - 1 is only sensible up to 31",
            fix="Train for 'ndcg:gain=linear' or 'pairwise', or rescale the labels",
        )
    return np.exp2(labels) - 1.0
