"""Group the rows of files of any size by query.

Runs that fit in memory are sorted by query id and merged; rows of a query keep their order. Lines
of text (``sort_lines``) are copied as they are; tables (``sort_tables``) keep their columns.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from rankine.core.errors import EmptyDataError, FileKindError, ParameterError
from rankine.core.stores import is_url
from rankine.data.compression import open_target
from rankine.data.formats import choose_format
from rankine.data.options import ReadKeywords, ReadOptions
from rankine.data.sort_lines import LineSorter, add_lines
from rankine.data.sources import find_sources

#: Memory used where ``max_memory`` is not given.
_DEFAULT_MEMORY = 768 * 2**20


@dataclass(frozen=True)
class SortReport:
    """What was sorted.

    Attributes
    ----------
    rows, queries
        Numbers of rows and queries.
    runs
        Sorted runs that were merged.
    skipped
        Bad rows that were left out.
    excluded_rows, excluded_files
        Rows that do not meet ``where``, and files without other rows by their Hive columns.
    """

    rows: int
    queries: int
    runs: int
    skipped: int
    excluded_rows: int = 0
    excluded_files: int = 0


def sort_file(
    path: Any,
    target: str | os.PathLike[str],
    *,
    by_time: str | None = None,
    **options: Unpack[ReadKeywords],
) -> SortReport:
    """Write the rows of files grouped by query, queries in increasing order of their ids.

    Parameters
    ----------
    path
        Files, as for ``rankine.load``.
    target
        The file to write, whole or not at all; ``.gz``, ``.bz2``, ``.xz`` and ``.zst``
        compress it, ``-`` is standard output. Lines of text are not changed; comment lines
        and blank lines are left out. Rows of tables can be written to any format; tables (raw
        logs too) keep names, types and all columns in Parquet and Arrow.
    by_time
        For tables: a column of times. Queries are then in order of the time of their earliest row,
        equal times in order of ids. Two numbers for each query are kept in memory.
    **options
        As for ``rankine.scan``; ``max_memory`` (default 768 MiB) bounds the memory used.
    """
    read_options = ReadOptions.make(**{"max_memory": _DEFAULT_MEMORY, **options})
    if not read_options.has_query_ids:
        raise ParameterError(
            "there are no query ids to sort by", parameter="group", fix="Leave it out"
        )
    sources = find_sources(path)
    formats = {choose_format(s, read_options.format, s.head()).name: s for s in sources}
    if "letor" not in formats:
        # Imported here: text needs no Arrow.
        from rankine.data.sort_tables import sort_tables

        return sort_tables(sources, target, read_options, by_time)
    if by_time is not None:
        raise ParameterError(
            "applies to tables with a column of times",
            parameter="by_time",
            fix="Leave it out, or convert the files first",
        )
    if len(formats) > 1:
        table = next(source for name, source in formats.items() if name != "letor")
        raise FileKindError(
            "text and other formats cannot be sorted together",
            file=table.name,
            fix="Convert the files to one format first: rankine convert IN OUT",
        )
    with tempfile.TemporaryFile(dir=temporary_folder(target)) as store:
        # Sorting a run takes two copies of it.
        sorter = LineSorter(store, read_options.memory_limit // 3)
        n_skipped = sum(add_lines(sorter, source, read_options) for source in sources)
        sorter.end_run()
        if not sorter.n_rows:
            raise EmptyDataError("no rows to sort", file=sources[0].name, fix="Check the path")
        with open_target(target) as out:
            n_queries = sorter.merge(out)
    return SortReport(sorter.n_rows, n_queries, len(sorter.runs), n_skipped)


def temporary_folder(target: str | os.PathLike[str]) -> Path | None:
    """Return the folder for temporary files, which need as much room as the target."""
    if os.fspath(target) == "-" or is_url(target):
        return None
    return Path(os.path.realpath(target)).parent
