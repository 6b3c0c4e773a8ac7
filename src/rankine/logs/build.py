"""Write history features as columns of a file, and apply new logs to a state."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankine.core.errors import FileKindError, ParameterError
from rankine.core.specs import History
from rankine.data.formats import format_for
from rankine.data.sort_tables import TablePart, join_rows, read_tables, write_table
from rankine.history.folder import check_not_live
from rankine.history.state import HistoryState, has_state, load_state, save_state
from rankine.logs.history import HistoryScan
from rankine.logs.schema import LogSchema
from rankine.logs.source import scan, scan_columns


@dataclass(frozen=True)
class BuildReport:
    """Numbers of rows and lists of a log, and the names of the features that were added.

    ``read_counts`` has the rows and files that do not meet the condition ``where``.
    """

    rows: int
    lists: int
    features: tuple[str, ...]
    read_counts: Mapping[str, int] = field(default_factory=dict, compare=False)


def build_history(
    path: Any,
    out: str | os.PathLike[str],
    schema: LogSchema,
    *,
    state: str | os.PathLike[str] | None = None,
    **options: Any,
) -> BuildReport:
    """Write the rows of a log with its history features as further columns.

    Other columns keep their names and types, and the rows their order.

    Parameters
    ----------
    path
        A log in order of time, as for ``rankine.logs.scan``.
    out
        Parquet or Arrow file; ``schema.without_history()`` is its schema.
    schema
        Schema with history features.
    state
        Folder of their state. If there is one, the log continues it; the state after the log is
        saved there.
    **options
        As for ``rankine.logs.scan``.
    """
    if not schema.history:
        raise ParameterError(
            "the schema declares no history features",
            parameter="schema",
            fix="Declare one: [history.item_ctr] with rate = 'clicked' and by = 'item'",
        )
    form = format_for(os.fspath(out)).name
    if form not in ("parquet", "arrow"):
        raise FileKindError(
            "history features are written to Parquet or Arrow",
            file=os.fspath(out),
            fix="Choose another suffix: .parquet or .arrow",
        )
    before = None
    if state is not None:
        check_not_live(state)
        if has_state(state):
            before = state
    log = scan(path, schema=schema, state=before, **options).raw
    assert isinstance(log, HistoryScan)  # noqa: S101 - narrows the type
    blocks = _add_columns(log, read_tables(log.inputs, log.options, Counter()))
    first = next(blocks)
    n_rows, n_lists = write_table(form, os.fspath(out), first.table.schema, chain([first], blocks))
    if state is not None:
        save_state(log.state(), state)
    return BuildReport(n_rows, n_lists, tuple(schema.history), log.read_counts or {})


def _add_columns(log: HistoryScan, tables: Iterator[TablePart]) -> Iterator[TablePart]:
    """Yield the rows of each block of the log, with all columns of the files and the features."""
    pending: list[TablePart] = []
    n_pending = 0
    for block in log.blocks():
        while n_pending < block.n_rows:
            pending.append(next(tables))
            n_pending += len(pending[-1].qid)
        rows = join_rows(pending)
        pending, n_pending = [rows.slice(block.n_rows, n_pending)], n_pending - block.n_rows
        table = rows.table.slice(0, block.n_rows)
        for name in log.spec.names:
            table = table.append_column(name, _to_arrow(block.columns[name]))
        yield TablePart(table, rows.qid[: block.n_rows])


def _to_arrow(values: NDArray[Any]) -> pa.Array:
    """Return numbers as a column in which a missing value is null."""
    return pa.array(np.ascontiguousarray(values), from_pandas=True)


def apply_history(folder: str | os.PathLike[str], path: Any, **options: Any) -> HistoryState:
    """Apply a new log to the state of a folder, and save it.

    A log that was applied before, or is older than the state, is an error.
    """
    return apply_log(folder, path, **options).state()


def apply_log(folder: str | os.PathLike[str], path: Any, **options: Any) -> HistoryScan:
    """Apply a new log to the state of a folder, save it, and return the log."""
    check_not_live(folder)
    state = load_state(folder)
    log = scan_columns(path, _schema_of_state(state.history), None, options, state=state)
    assert isinstance(log, HistoryScan)  # noqa: S101 - narrows the type
    save_state(log.state(), folder)
    return log


def _schema_of_state(history: History) -> LogSchema:
    """Return a schema that reads what history features need."""
    fields = msgspec.structs.asdict(history)
    names, features = fields.pop("names"), fields.pop("features")
    return LogSchema(history=dict(zip(names, features, strict=True)), **fields)
