"""Choose the files of a data set by their Hive columns, and make their columns agree.

Files of one data set may store a column with several types. Where one type holds all values
exactly, files are cast to it while they are read; otherwise an error names two files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rankine.core.errors import EmptyDataError, ParameterError
from rankine.data.formats import choose_format
from rankine.data.options import ReadOptions
from rankine.data.sources import Source


class Selection(NamedTuple):
    """Sources to read, and the number of files that hold no row to read by their Hive columns."""

    sources: list[Source]
    n_excluded: int


def select_sources(sources: Sequence[Source], options: ReadOptions) -> Selection:
    """Return the sources that may hold rows which meet the condition of the options.

    Sources of several tables are compared, and cast where their types differ.
    """
    if options.where is None and len(sources) == 1:
        return Selection(list(sources), 0)
    if choose_format(sources[0], options.format, sources[0].head()).name == "letor":
        if options.where is not None:
            raise ParameterError(
                "applies to tables with named columns, and this is text of features",
                parameter="where",
                fix="Leave it out",
            )
        return Selection(list(sources), 0)
    # Imported here: files of text need no Arrow.
    from rankine.data.listing import require_same_partitions

    require_same_partitions(sources)
    chosen = list(sources)
    if options.condition is not None:
        from rankine.data.where import may_hold, partition_bounds

        condition = options.condition
        chosen = [
            source
            for source in sources
            if may_hold(condition, partition_bounds(condition, source.partition))
        ]
        if not chosen:
            raise no_rows_error([source.name for source in sources], options)
    if len(chosen) > 1:
        chosen = _align_types(chosen, options)
    return Selection(chosen, len(sources) - len(chosen))


def no_rows_error(names: Sequence[str], options: ReadOptions) -> EmptyDataError:
    """Build the error for data without rows."""
    files = ", ".join(names[:3])
    if len(names) > 3:
        files += f" and {len(names) - 3} more"
    if options.where is not None:
        return EmptyDataError(
            f"no row of {files} meets {options.where!r}",
            parameter="where",
            fix="Change the condition, or leave it out",
        )
    return EmptyDataError(
        f"no rows in {files}", fix="Check the path; comments and blank lines are no rows"
    )


def _align_types(sources: list[Source], options: ReadOptions) -> list[Source]:
    """Return sources that cast columns to one type; raise where a column that is read has none."""
    from rankine.data.readers.column_types import ColumnTypes
    from rankine.data.readers.tables import table_schema

    # Reading the schema of a stream would use up its first rows.
    tables = [
        (source, table_schema(source, options)) for source in sources if _is_table(source, options)
    ]
    if len(tables) < 2 or all(schema == tables[0][1] for _, schema in tables):
        return sources
    aligned = iter(ColumnTypes(tables, options).align())
    return [next(aligned) if _is_table(source, options) else source for source in sources]


def _is_table(source: Source, options: ReadOptions) -> bool:
    form = choose_format(source, options.format, source.head())
    return source.has_header and form.name != "letor"
