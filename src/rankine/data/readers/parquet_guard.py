"""Check what a Parquet file asks for before any of its pages is decoded.

pyarrow limits what a footer may allocate (``thrift_string_size_limit`` and
``thrift_container_size_limit``) and verifies the checksums of pages, but it allocates whatever the
header of a page states: a few bytes can ask for gigabytes. So the page headers (``PageHeader`` in
``parquet.thrift``) are read here first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rankine.core.errors import FileKindError, LimitError, SchemaError
from rankine.data.options import ReadOptions

#: The expansion ratio is not checked below this size: small data may be very repetitive.
RATIO_FREE = 64 * 2**20
#: Bytes read for a page header at first, and at most where its statistics are long.
_HEADER_BYTES, _MAX_HEADER_BYTES = 2048, 2**22
#: Types of Thrift's compact protocol that page headers consist of.
_TRUE, _FALSE, _BYTE, _INTEGERS, _BINARY, _STRUCT = 1, 2, 3, (4, 5, 6), 8, 12
_MAX_DEPTH = 12


def read_struct(data: bytes, position: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Read a struct in Thrift's compact protocol.

    Return its fields by number and the position after it. Malformed data raise ValueError, data
    that end too early IndexError.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[position]:
        position += 1
        if head > 15:
            number += head >> 4  # the distance to the number of the field before
        else:
            number, position = _read_integer(data, position)
        fields[number], position = _read_value(data, position, head & 15, depth)
    return fields, position + 1


def _read_value(data: bytes, position: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, position
    if kind == _BYTE:
        return data[position], position + 1
    if kind in _INTEGERS:
        return _read_integer(data, position)
    if kind == _STRUCT:
        return read_struct(data, position, depth + 1)
    if kind == _BINARY:
        length, position = _read_varint(data, position)
        if length > len(data) - position:
            raise IndexError("a text is longer than the data")
        return data[position : position + length], position + length
    raise ValueError(f"unexpected field type {kind}")


def _read_integer(data: bytes, position: int) -> tuple[int, int]:
    value, position = _read_varint(data, position)
    return (value >> 1) ^ -(value & 1), position  # zigzag encoding


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("a number has more than 64 bits")


class Page(NamedTuple):
    """Sizes that the header of a page states, in bytes, and its number of values."""

    compressed_size: int
    size: int
    n_values: int


def check_footer(metadata: pq.FileMetaData) -> None:
    """Refuse a footer that contradicts itself: it has no checksum, but states some facts twice."""
    group_rows = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
    if min(group_rows, default=0) < 0 or sum(group_rows) != metadata.num_rows:
        raise _footer_error(
            f"{metadata.num_rows} rows in all, but {sum(group_rows)} in its row groups"
        )
    schema = [metadata.schema.column(j).path for j in range(metadata.num_columns)]
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k)
        if group.num_columns != len(schema):
            raise _footer_error(
                f"row group {k} holds {group.num_columns} columns, {len(schema)} in the schema"
            )
        for j, path in enumerate(schema):
            stored_path = group.column(j).path_in_schema
            if stored_path != path:
                raise _footer_error(f"row group {k} holds {stored_path!r}, {path!r} in the schema")


def _footer_error(reason: str) -> FileKindError:
    return FileKindError(
        f"the Parquet footer is damaged: {reason}", fix="Fetch or write the file again"
    )


def check_row_group(
    raw: pa.NativeFile,
    metadata: pq.FileMetaData,
    number: int,
    columns: list[str],
    options: ReadOptions,
) -> int:
    """Refuse a row group whose columns would expand too far.

    Flat columns are decoded batch by batch, so only their largest pages count. A list column may
    be one row, so all its values count. Return the largest number of values of a list column.
    """
    group = metadata.row_group(number)
    if group.num_rows == 0:
        return 0
    wanted = set(columns)
    page_bytes = list_bytes = stored_bytes = most_values = 0
    for j in range(group.num_columns):
        column = group.column(j)
        if not _is_part_of(column.path_in_schema, wanted):
            continue
        pages = list(_read_pages(raw, column))
        page_bytes += max((page.size for page in pages), default=0)
        if metadata.schema.column(j).max_repetition_level > 0:
            n_values = sum(page.n_values for page in pages)
            most_values = max(most_values, n_values)
            value_bytes = 8 if column.physical_type in ("INT64", "DOUBLE") else 4
            list_bytes += n_values * value_bytes
            stored_bytes += sum(page.compressed_size for page in pages)
    needed = max(page_bytes, list_bytes)
    if needed > options.memory_limit // 4:
        raise LimitError(
            f"a row group needs {needed} bytes at once, above a quarter of the memory limit",
            parameter="max_memory",
            fix="Write smaller row groups and pages, or raise the limit",
        )
    if list_bytes > RATIO_FREE and list_bytes > options.max_ratio * max(stored_bytes, 1):
        raise LimitError(
            f"a row group expands to more than {options.max_ratio} times its size",
            parameter="max_ratio",
            fix="If the file can be trusted, raise the limit",
        )
    return most_values


def _is_part_of(path: str, columns: set[str]) -> bool:
    """Whether a stored column belongs to a named one; lists have longer paths than names."""
    while path not in columns and "." in path:
        path = path.rpartition(".")[0]
    return path in columns


def _read_pages(raw: pa.NativeFile, column: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """Yield the headers of the pages of one column of one row group, in file order."""
    start = column.data_page_offset
    if column.dictionary_page_offset:
        start = min(start, column.dictionary_page_offset)
    stop = start + column.total_compressed_size
    path = column.path_in_schema
    if not 4 <= start <= stop <= raw.size():
        raise _page_error(f"the pages of {path!r} are outside the file")
    position = start
    while position < stop:
        page, header_bytes = _read_header(raw, position, stop, path)
        yield page
        position += header_bytes + page.compressed_size


def _read_header(raw: pa.NativeFile, start: int, stop: int, path: str) -> tuple[Page, int]:
    """Return the page header at ``start`` and its length."""
    for size in (_HEADER_BYTES, _MAX_HEADER_BYTES):
        data = raw.read_at(min(size, stop - start), start)
        try:
            fields, header_bytes = read_struct(data, 0)
            data_header = fields.get(5) or fields.get(8) or {}  # of version 1 or version 2
            page = Page(fields[3], fields[2], data_header.get(1, 0))
            if min(page) >= 0:
                return page, header_bytes
            break
        except IndexError:  # the header is longer, or cut
            continue
        except (KeyError, ValueError, TypeError, AttributeError):
            break
    raise _page_error(f"a page of {path!r} has no valid header")


def _page_error(reason: str) -> SchemaError:
    return SchemaError(reason, fix="The file is damaged; write it again")
