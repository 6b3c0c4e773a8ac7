"""Average rank of each method over tasks, with Friedman's test (Demsar 2006).

On every task the best method has rank 1, equal ones share the mean of their ranks. Friedman's
test asks whether the average ranks could come from methods that do not differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankine.evaluation.letor import TaskResult
from rankine.metrics import parse_metric

__all__ = ["AverageRanks", "absent_tasks", "average_ranks"]


@dataclass(frozen=True)
class AverageRanks:
    """Ranks over the tasks for which all methods have a figure.

    ``p_value`` is None where Friedman's test has nothing to say: fewer than three methods or two
    tasks.
    """

    metric: str
    ranks: Mapping[str, float]
    tasks: Sequence[str]
    statistic: float | None
    p_value: float | None


def average_ranks(tasks: Sequence[TaskResult], metric: str) -> AverageRanks | None:
    """Average ranks by one metric; None when no task has figures of two methods."""
    from scipy import stats

    figures = {
        task.name: {m.name: m.means[metric] for m in task.methods if metric in m.means}
        for task in tasks
    }
    names = [m.name for m in max(tasks, key=lambda t: len(t.methods)).methods]
    methods = [name for name in names if any(name in row for row in figures.values())]
    common = [task for task, row in figures.items() if all(name in row for name in methods)]
    if len(methods) < 2 or not common:
        return None
    sign = -1.0 if parse_metric(metric).larger_is_better else 1.0
    table = np.array([[sign * figures[task][name] for name in methods] for task in common])
    ranks = np.apply_along_axis(stats.rankdata, 1, table)
    statistic = p_value = None
    if len(methods) >= 3 and len(common) >= 2 and np.ptp(table, axis=1).any():
        test = stats.friedmanchisquare(*table.T)
        statistic, p_value = float(test.statistic), float(test.pvalue)
    means = dict(zip(methods, ranks.mean(axis=0).tolist(), strict=True))
    return AverageRanks(metric, means, common, statistic, p_value)


def absent_tasks(tasks: Sequence[TaskResult]) -> dict[str, list[str]]:
    """Method -> tasks for which it has no figures."""
    methods = {method.name for task in tasks for method in task.methods}
    return {
        name: missing
        for name in sorted(methods)
        if (missing := [t.name for t in tasks if name not in {m.name for m in t.methods}])
    }
