"""Edits of a model's curves: the cells that fixed entries name, and their values.

A curve is the one that the model stores: its mean over the training rows is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from rankine.core.edits import Edit, FixedEntry
from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.core.safe_text import printable
from rankine.core.user_warnings import warn_user
from rankine.model.checks import read_progress
from rankine.model.tables import Tables

#: Largest number of cells that are fixed at a time; the solver has a dense equation for each.
MAX_FIXED = 500


def resolve(edit: Edit, tables: Tables) -> Edit:
    """Return an edit of the columns of a model, with ranges of whole bins.

    Warns where a range meets bins that go beyond it. Raises for columns and categories that the
    model does not have, and if two entries fix a cell at different values.
    """
    values: dict[int, float | None] = {}
    resolved = []
    for entry in edit.fixed:
        j, cells = _cells(entry, tables)
        start = sum(tables.bins.n_cells[:j])
        for cell in cells:
            if values.setdefault(start + cell, entry.value) != entry.value:
                raise ParameterError(
                    f"{tables.cell_label(j, cell)!r} is fixed at {values[start + cell]} and at "
                    f"{entry.value}",
                    parameter="fixed",
                    fix="Leave one of the entries out",
                )
        resolved.append(_of_whole_bins(entry, tables, j, cells))
    if not resolved:
        raise ParameterError("no entry is named", parameter="fixed", fix="Name at least one")
    return msgspec.structs.replace(edit, fixed=tuple(resolved))


def _of_whole_bins(entry: FixedEntry, tables: Tables, j: int, cells: range) -> FixedEntry:
    """Return the entry with its column as the model names it and the range of its bins."""
    names, cuts = tables.bins.names, tables.bins.cuts[j]
    column: str | int = j if names is None else names[j]
    if entry.low is None and entry.high is None:
        return msgspec.structs.replace(entry, column=column)
    low = cuts[cells[0] - 1] if cells[0] > 0 else None
    high = cuts[cells[-1]] if cells[-1] < len(cuts) else None
    if (low, high) != (entry.low, entry.high) and entry.low != entry.high:
        ends = ["" if end is None else f"{end:g}" for end in (entry.low, entry.high)]
        warn_user(
            f"the range {' to '.join(ends).strip()} cuts bins of the model; "
            f"{tables.span_label(j, cells[0], cells[-1])!r} is edited"
        )
    return msgspec.structs.replace(entry, column=column, low=low, high=high)


def fixed_cells(edits: Sequence[Edit], tables: Tables) -> dict[int, float]:
    """Return the cells that are fixed after all edits, and their values."""
    fixed: dict[int, float] = {}
    for edit in edits:
        for entry in edit.fixed:
            j, cells = _cells(entry, tables)
            start = sum(tables.bins.n_cells[:j])
            for cell in cells:
                if entry.value is None:
                    fixed.pop(start + cell, None)
                else:
                    fixed[start + cell] = entry.value
    if len(fixed) > MAX_FIXED:
        raise ParameterError(
            f"{len(fixed)} entries are fixed; the limit is {MAX_FIXED}",
            parameter="fixed",
            fix="Fix fewer, or free some",
        )
    return fixed


def edits_of(provenance: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Return the edits that a model's provenance records."""
    return read_progress(provenance).edits


def _cells(entry: FixedEntry, tables: Tables) -> tuple[int, range]:
    """Return the column of an entry and its cells, which are neighbours."""
    j = tables.column_number(entry.column, "fixed")
    name, cuts = tables.column_name(j), tables.bins.cuts[j]
    unordered = j in tables.bins.unordered
    if j in tables.bins.linear:
        raise ParameterError(
            f"column {name!r} is linear and has no curve",
            parameter="fixed",
            fix="Leave it out, or train without linear",
        )
    if entry.missing:
        return j, range(len(cuts) + 1, len(cuts) + 2)
    has_range = entry.low is not None or entry.high is not None
    if unordered and has_range:
        raise ParameterError(
            f"column {name!r} has categories, which have no order",
            parameter="fixed",
            fix="Name a category in place of the range",
        )
    if not unordered and (entry.category is not None or entry.other):
        raise ParameterError(
            f"column {name!r} has ranges and no categories",
            parameter="fixed",
            fix="Name a range; both ends alike name the bin of one number",
        )
    if entry.other:
        return j, range(len(cuts), len(cuts) + 1)
    if entry.category is not None:
        cell = _category_cell(entry.category, tables, j)
        return j, range(cell, cell + 1)
    first, last = 0, len(cuts)
    if entry.low is not None:
        first = int(np.searchsorted(cuts, entry.low, side="right"))
    if entry.high is not None:
        last = int(np.searchsorted(cuts, entry.high, side="left"))
    return j, range(first, max(first, last) + 1)


def _category_cell(category: str | float, tables: Tables, j: int) -> int:
    cuts = tables.bins.cuts[j]
    number: Any = category
    if j in tables.texts:
        texts = tables.texts[j]
        number = texts.index(category) if category in texts else math.nan
    if number not in cuts:
        raise FeatureMismatchError(
            f"column {tables.column_name(j)!r} has no entry for the category "
            f"{printable(str(category))!r}",
            parameter="fixed",
            fix="Check the spelling; rare categories share the entry other",
        )
    return cuts.index(number)
