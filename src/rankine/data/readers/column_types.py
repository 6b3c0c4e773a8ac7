"""Find one type for each column of a data set whose files store several.

A safe type holds every value exactly: int64 for narrower integers, float64 for float32, any type
for a column of nulls. Values that are read as categories or numbers need no common type, since each
file is converted by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyarrow import types as pt

from rankine.core.errors import SchemaError
from rankine.data.options import ReadOptions
from rankine.data.readers.column_plan import plan_columns
from rankine.data.readers.values import is_list, is_number, is_text
from rankine.data.sources import Source

_UNITS = ("s", "ms", "us", "ns")


class ColumnTypes:
    """Types of the columns of several tables.

    Parameters
    ----------
    tables
        Sources with their schemas, which differ.
    """

    def __init__(self, tables: Sequence[tuple[Source, pa.Schema]], options: ReadOptions) -> None:
        self._tables = tables
        self._options = options
        self._first, self._first_schema = tables[0]
        self._numbers = {options.label, options.weight, *options.numbers}
        self._targets = {
            name: self._common_type(name)
            for name in dict.fromkeys(name for _, schema in tables for name in schema.names)
        }

    def align(self) -> list[Source]:
        """Return the sources with their casts; raise where a column that is read has no type."""
        aligned = [
            replace(source, casts=self._casts(source, schema)) for source, schema in self._tables
        ]
        schema = self._first_schema
        for name, data_type in aligned[0].casts.items():
            schema = schema.set(schema.get_field_index(name), pa.field(name, data_type))
        plan = plan_columns(schema, self._options, tuple(self._first.partition))
        for name in plan.columns:
            if name not in self._first.partition:
                self._check(name, is_feature=name in plan.features)
        return aligned

    def _casts(self, source: Source, schema: pa.Schema) -> dict[str, pa.DataType]:
        casts = {}
        for name in schema.names:
            target = self._targets[name]
            if name in source.partition or target is None:
                continue
            if _differs(schema.field(name).type, target):
                casts[name] = target
        return casts

    def _types(self, name: str) -> list[tuple[Source, pa.DataType]]:
        """Return the types of a column in the files that have it with values."""
        types = []
        for source, schema in self._tables:
            if name in schema.names and not pt.is_null(schema.field(name).type):
                types.append((source, schema.field(name).type))
        return types

    def _common_type(self, name: str) -> pa.DataType | None:
        """Return the type to cast a column to; None keeps the types of the files."""
        types = [data_type for _, data_type in self._types(name)]
        if not types or name in self._options.categories or name in self._options.numbers:
            return None
        types = [t.value_type if pt.is_dictionary(t) else t for t in types]
        if all(is_text(data_type) for data_type in types):
            return pa.string()
        if all(data_type == types[0] for data_type in types):
            return types[0]
        if all(pt.is_integer(data_type) for data_type in types):
            return pa.int64()
        if all(pt.is_integer(t) or pt.is_floating(t) for t in types):
            return pa.float64()
        if all(pt.is_date(t) or pt.is_timestamp(t) for t in types):
            times = [data_type for data_type in types if pt.is_timestamp(data_type)]
            if not times:
                return pa.date32()
            return pa.timestamp(max((t.unit for t in times), key=_UNITS.index), times[0].tz)
        return None

    def _check(self, name: str, *, is_feature: bool) -> None:
        # Features that are all other columns are compared by name where blocks are joined.
        may_lack = is_feature and self._options.features is None
        for source, schema in self._tables:
            if name not in schema.names and not may_lack:
                raise SchemaError(
                    f"no column {name!r}, which {self._first.name} has",
                    file=source.name,
                    fix="Leave the file out, or write the column in all files",
                    column=name,
                )
        types = self._types(name)
        if name in self._options.categories or not types:
            return
        first, first_type = types[0]
        first_kind = self._kind(first_type, name, is_feature=is_feature)
        for source, data_type in types[1:]:
            kind = self._kind(data_type, name, is_feature=is_feature)
            if kind != first_kind:
                raise SchemaError(
                    f"column {name!r} is of type {data_type} here and {first_type} in {first.name}",
                    file=source.name,
                    fix="Write the column with one type in all files",
                    column=name,
                )

    def _kind(self, data_type: pa.DataType, name: str, *, is_feature: bool) -> str:
        """Return the kind of values that a type holds; values of one kind can be compared."""
        if pt.is_dictionary(data_type):
            data_type = data_type.value_type
        if is_list(data_type):
            return "list of " + self._kind(data_type.value_type, name, is_feature=is_feature)
        if is_text(data_type):
            # Text that is read as a number is a date or time of ISO 8601.
            return "time" if name in self._options.numbers else "text"
        if pt.is_date(data_type):
            return "time"
        if pt.is_timestamp(data_type):
            return "time" if data_type.tz is None or name in self._numbers else "time with a zone"
        if is_number(data_type) and not pt.is_boolean(data_type):
            return "number"
        used_as_number = is_feature or name in self._numbers
        if used_as_number and (pt.is_boolean(data_type) or pt.is_decimal(data_type)):
            return "number"
        return str(data_type)


def _differs(data_type: pa.DataType, target: pa.DataType) -> bool:
    """Whether a column must be cast: texts of any type are read alike, dictionaries stay coded."""
    if pt.is_dictionary(data_type):
        data_type = data_type.value_type
    return data_type != target and not is_text(data_type)
