"""Progressive validation: each list is judged by a model that has not yet learned from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import LabelError
from rankine.data.query_index import QueryIndex

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["Progressive"]


class Progressive:
    """Running mean of a metric over the lists of a stream.

    Before anything was learned all scores are 0, and the order of the file often gives the labels
    away: items with equal scores count by the mean over their orders. The sum is taken list by list
    in stream order, so it does not depend on how the stream was cut.

    Parameters
    ----------
    metric
        A metric or its text form.
    fair_ties
        Replace the tie rule "file" by the mean over orders.
    """

    def __init__(self, metric: Any, *, fair_ties: bool = True) -> None:
        from rankine.metrics import parse_metric

        named = parse_metric(metric)
        self.name = f"progressive_{named}"
        fair = fair_ties and named.ties == "file"
        self.metric = named.with_options(ties="expected") if fair else named
        self.sums = np.zeros(2)  # of values, of lists
        #: (lists, mean so far) at 10, 15, 20, 30, 50, 70, 100, 150 ... lists, however cut.
        self.milestones: list[tuple[int, float]] = []
        #: Why the metric cannot judge these labels; None while it can.
        self.unfit: str | None = None

    @property
    def value(self) -> float:
        """Mean so far; NaN before the first list."""
        judged = self.unfit is None and self.sums[1] > 0
        return float(self.sums[0] / self.sums[1]) if judged else float("nan")

    def add(
        self, data: Dataset, scores: NDArray[np.float64], order: NDArray[np.int64] | None
    ) -> None:
        """Judge the lists ``order`` of a block (None: all, in order)."""
        from rankine.metrics import evaluate

        index, rows = _chosen(data, order)
        columns = data.columns
        labels = data.y
        if rows is not None:
            labels, scores = labels[rows], scores[rows]
            columns = {name: np.asarray(values)[rows] for name, values in columns.items()}
        try:
            values = np.asarray(
                evaluate(self.metric, labels, scores, index, per_query=True, columns=columns)
            )
        except LabelError as error:  # training may know what to do with such labels all the same
            self.unfit = str(error)
            return
        values = values[~np.isnan(values)]
        # cumsum adds one by one; sum would add in a tree whose shape depends on the block.
        running = np.cumsum(np.concatenate([self.sums[:1], values]))
        before = int(self.sums[1])
        for lists in _milestones(before, before + len(values)):
            self.milestones.append((lists, float(running[lists - before] / lists)))
        self.sums[0] = running[-1]
        self.sums[1] += len(values)

    def story(self) -> list[dict[str, float]]:
        """The mean along the stream and at its end; nothing where labels do not suit the metric."""
        if self.unfit is not None or self.sums[1] == 0:
            return []
        ends = [] if self._told_all() else [(int(self.sums[1]), self.value)]
        return [{"lists": lists, self.name: mean} for lists, mean in [*self.milestones, *ends]]

    def _told_all(self) -> bool:
        return bool(self.milestones) and self.milestones[-1][0] == int(self.sums[1])


def _milestones(before: int, now: int) -> list[int]:
    """Round numbers of lists above ``before`` and up to ``now``."""
    found = []
    unit = 10
    while unit <= now:
        found += [unit * k // 10 for k in (10, 15, 20, 30, 50, 70)]
        unit *= 10
    return [lists for lists in found if before < lists <= now]


def _chosen(
    data: Dataset, order: NDArray[np.int64] | None
) -> tuple[QueryIndex, NDArray[np.int64] | None]:
    """The lists in the given order, and their row numbers (None: all rows as they stand)."""
    index = data.queries
    if order is None:
        return index, None
    starts = index.starts[order]
    sizes = index.starts[order + 1] - starts
    ends = np.concatenate([[0], np.cumsum(sizes)])
    places = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], sizes)
    rows = places if index.rows is None else index.rows[places]
    return QueryIndex(order, ends), rows
