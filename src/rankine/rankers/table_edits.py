"""Curves with entries that people fixed: their equations, and what an edit changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.edits import Edit
from rankine.core.errors import ParameterError
from rankine.model.edits import fixed_cells, resolve
from rankine.model.tables import Tables, texts_of
from rankine.rankers.additive_search import Plan
from rankine.solvers.fixed import ContradictionError, FixedEntries, FixedPenalty
from rankine.solvers.tables import TablePenalty

if TYPE_CHECKING:
    from rankine.rankers.fitting import FitTask
    from rankine.rankers.table_data import TableReader
    from rankine.solvers.base import Solution


@dataclass(frozen=True, eq=False)
class EditableTables:
    """The tables of a plan, whose cells can be named and fixed.

    Attributes
    ----------
    plan
        Bins, grids and strengths.
    counts
        Number of rows in every cell.
    tables
        Names of columns and cells; it has no weights.
    """

    plan: Plan
    counts: NDArray[np.float64]
    tables: Tables

    @classmethod
    def from_task(
        cls, task: FitTask, plan: Plan, counts: NDArray[np.float64], reader: TableReader
    ) -> EditableTables:
        """Create the tables of a plan for the columns of a task."""
        bins, _ = reader.columns.over_all_columns(plan.bins, None)
        texts = {}
        if task.source.log_record is not None:
            texts = texts_of(task.source.log_record.encoding.spec)
        return cls(plan, counts, Tables(bins, None, np.zeros(0), 0, texts))

    def resolve(self, edit: Edit) -> Edit:
        """Return an edit with the columns and bins of these tables."""
        return resolve(edit, self.tables)

    def penalty(self, edits: Sequence[Edit]) -> TablePenalty | FixedPenalty:
        """Return the penalty of the plan, with the entries that are fixed after the edits."""
        space = self.plan.space
        penalty = TablePenalty(space, self.plan.strengths, self.plan.threads)
        fixed = fixed_cells(edits, self.tables)
        if not fixed:
            return penalty
        edited = np.unique(np.repeat(np.arange(len(space.sizes)), space.sizes)[[*fixed]])
        for j in np.intersect1d(edited, [j for pair in self.plan.pairs for j in pair]).tolist():
            if space.shapes[j]:
                raise ParameterError(
                    f"column {self._name(j)!r} has the shape {self.plan.shapes[j]!r} and is in a "
                    "pair: the shape is that of both together, and no value of the curve alone",
                    parameter="fixed",
                    fix="Leave it out, or train with pairs that do not name the column",
                )
        try:
            entries = FixedEntries.build(space, self.counts, fixed)
        except ContradictionError as error:
            name, shape = self._name(error.column), self.plan.shapes[error.column]
            raise ParameterError(
                f"no {shape} curve of mean 0 has the entries that are fixed in column {name!r}",
                parameter="fixed",
                fix="Change or free some of them, or train without the shape",
            ) from error
        return FixedPenalty(penalty, entries)

    def _name(self, j: int) -> str:
        """Return the name of a column by its number among those with tables."""
        with_tables = np.flatnonzero(np.array(self.tables.bins.n_cells) > 0)
        return self.tables.column_name(int(with_tables[j]))


def measured(
    edit: Edit, before: Solution, after: Solution, metric: Any, values: Sequence[float]
) -> Edit:
    """Return an edit with what it changed; ``values`` is the metric before and after, or empty."""
    changes: dict[str, Any] = {
        "objective_before": float(before.objective),
        "objective_after": float(after.objective),
        "gap": float(max(before.certificate["gap"], after.certificate["gap"])),
    }
    if values:
        changes["metric"] = str(metric)
        changes["metric_before"], changes["metric_after"] = map(float, values)
    return msgspec.structs.replace(edit, **changes)
