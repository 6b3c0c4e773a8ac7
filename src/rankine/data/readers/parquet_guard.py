"""Check how much memory a Parquet file needs before any of its pages is decoded.

pyarrow limits what a footer may allocate (``thrift_string_size_limit`` and
``thrift_container_size_limit``) and verifies the checksums of pages. Two dangers remain:

- It allocates what the header of a page states: a few bytes can request gigabytes.
- Its Python view of a footer (``FileMetaData.row_group(k).column(j)``) ends the process where the
  footer is damaged: exceptions of C++ are not caught there.

So the footer and the headers of pages (``parquet.thrift``) are read by a minimal reader of Thrift's
compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from rankine.core.errors import FileKindError, LimitError, SchemaError
from rankine.data.options import ReadOptions

#: The expansion ratio is not checked below this size: small data may be very repetitive.
RATIO_FREE = 64 * 2**20
_MAX_FOOTER_BYTES = 2**28
#: Bytes read for a page header at first, and at most where its statistics are long.
_HEADER_BYTES, _MAX_HEADER_BYTES = 2048, 2**22

# Types of Thrift's compact protocol.
_TRUE, _FALSE, _BINARY, _MAP, _STRUCT = 1, 2, 8, 11, 12
_INTEGERS, _LISTS = (4, 5, 6), (9, 10)
_FIXED_BYTES = {3: 1, 7: 8, 13: 16}  # byte, double, UUID
_MAX_DEPTH = 12


def read_struct(
    data: bytes, position: int, wanted: dict[int, Any], depth: int = 0
) -> tuple[dict[int, Any], int]:
    """Read some fields of a struct in Thrift's compact protocol.

    Return the wanted fields by number and the position after the struct. Malformed data raise
    ValueError, data that end too early IndexError.

    Parameters
    ----------
    wanted
        Numbers of the wanted fields: with None for a plain value, with another such dict for a
        struct or a list of structs.
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
        value_type = head & 15
        # Integers are the most frequent: reading them here saves a call per field.
        if value_type in _INTEGERS:
            value, position = _read_integer(data, position)
        else:
            value, position = _read_value(data, position, value_type, wanted.get(number), depth)
        if number in wanted:
            fields[number] = value
    return fields, position + 1


def _read_value(
    data: bytes, position: int, value_type: int, wanted: dict[int, Any] | None, depth: int
) -> tuple[Any, int]:
    if value_type == _BINARY:
        length = data[position]
        position += 1
        if length > 127:
            length, position = _read_varint(data, position - 1)
        if length > len(data) - position:
            raise IndexError("a text is longer than the data")
        return data[position : position + length], position + length
    if value_type in _INTEGERS:
        return _read_integer(data, position)
    if value_type == _STRUCT:
        return read_struct(data, position, wanted or {}, depth + 1)
    if value_type in (_TRUE, _FALSE):
        return value_type == _TRUE, position
    if value_type in _LISTS:
        head = data[position]
        size, position = head >> 4, position + 1
        if size == 15:
            size, position = _read_varint(data, position)
        return _read_items(data, position, size, (head & 15,), wanted, depth)
    if value_type == _MAP:
        size, position = _read_varint(data, position)
        if size == 0:
            return [], position
        head = data[position]
        return _read_items(data, position + 1, size, (head >> 4, head & 15), wanted, depth)
    if value_type in _FIXED_BYTES:
        return None, position + _FIXED_BYTES[value_type]
    raise ValueError(f"unknown type {value_type}")


def _read_items(
    data: bytes,
    position: int,
    size: int,
    value_types: tuple[int, ...],
    wanted: dict[int, Any] | None,
    depth: int,
) -> tuple[list[Any], int]:
    """Read the items of a list, or the keys and values of a map."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if size > len(data) - position:  # every item takes at least a byte
        raise IndexError("a list is longer than the data")
    items = []
    for _ in range(size):
        for value_type in value_types:
            if value_type in (_TRUE, _FALSE):
                # A boolean field is stored in its type, but a boolean item takes a byte.
                item, position = None, position + 1
            else:
                item, position = _read_value(data, position, value_type, wanted, depth + 1)
            items.append(item)
    return items, position


def _read_integer(data: bytes, position: int) -> tuple[int, int]:
    value = data[position]
    if value < 128:
        position += 1
    else:
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


class Chunk(NamedTuple):
    """One column of one row group, as the footer states it.

    Attributes
    ----------
    path
        Name of the column, followed by names of its parts.
    value_bytes
        Bytes of a decoded value, at least.
    start, stop
        Where its pages are in the file.
    n_values
        Number of values, null and empty ones included.
    minimum, maximum
        Bounds of the values as stored; empty where the footer has none.
    """

    path: tuple[str, ...]
    value_bytes: int
    start: int
    stop: int
    n_values: int
    minimum: bytes
    maximum: bytes


class RowGroup(NamedTuple):
    """A row group, as the footer states it."""

    n_rows: int
    chunks: list[Chunk]


class Page(NamedTuple):
    """Sizes that the header of a page states, in bytes, and its number of values."""

    compressed_size: int
    size: int
    n_values: int


# Wanted fields of parquet.thrift: of FileMetaData, ColumnMetaData and PageHeader.
_STATISTICS = {5: None, 6: None}
_COLUMN = {1: None, 3: None, 5: None, 7: None, 9: None, 11: None, 12: _STATISTICS}
_FOOTER = {2: {4: None, 5: None}, 3: None, 4: {1: {3: _COLUMN}, 3: None}}
_PAGE = {2: None, 3: None, 5: {1: None}, 8: {1: None}}
#: Physical types of eight bytes: INT64 and DOUBLE.
_WIDE_TYPES = (2, 5)
_MALFORMED = (KeyError, IndexError, ValueError, TypeError, AttributeError)


def read_footer(raw: pa.NativeFile) -> list[RowGroup]:
    """Return the row groups of a file; refuse a footer that is malformed or contradicts itself."""
    size = raw.size()
    tail = raw.read_at(8, max(size - 8, 0))
    footer_bytes = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or not 0 < footer_bytes <= min(size - 12, _MAX_FOOTER_BYTES):
        raise FileKindError(
            "not a complete Parquet file: no footer at its end",
            fix="Fetch or write it again; encrypted files cannot be read",
        )
    data = raw.read_at(footer_bytes, size - 8 - footer_bytes)
    try:
        footer, _ = read_struct(data, 0, _FOOTER)
        groups = [
            RowGroup(group[3], [_make_chunk(column[3]) for column in group[1]])
            for group in footer.get(4, [])
        ]
        n_rows = sum(group.n_rows for group in groups)
        if footer[3] != n_rows:
            raise ValueError(f"{footer[3]} rows in all, but {n_rows} in its row groups")
        _check_paths(_leaf_paths(footer[2]), groups)
    except _MALFORMED as error:
        raise FileKindError(
            f"the Parquet footer is damaged: {error}", fix="Fetch or write it again"
        ) from error
    return groups


def _make_chunk(fields: dict[int, Any]) -> Chunk:
    start = fields[9]  # of the data pages
    # The page of the dictionary, if there is one, is before the data pages.
    if fields.get(11, 0) > 0:
        start = min(start, fields[11])
    statistics = fields.get(12, {})
    value_bytes = 4
    if fields[1] in _WIDE_TYPES:
        value_bytes = 8
    return Chunk(
        tuple(part.decode() for part in fields[3]),
        value_bytes,
        start,
        start + fields[7],
        fields.get(5, 0),
        statistics.get(6, b""),
        statistics.get(5, b""),
    )


def _leaf_paths(schema: list[dict[int, Any]]) -> list[tuple[str, ...]]:
    """Return the paths of the columns of a schema, which is stored depth first."""
    paths: list[tuple[str, ...]] = []
    # Path and number of missing children of the elements above; the root's name is in no path.
    parents: list[tuple[tuple[str, ...], int]] = [((), schema[0].get(5, 0))]
    for element in schema[1:]:
        while parents and parents[-1][1] == 0:
            parents.pop()
        path, n_missing = parents[-1]
        parents[-1] = (path, n_missing - 1)
        path = (*path, element[4].decode())
        n_children = element.get(5, 0)
        if n_children > 0:
            parents.append((path, n_children))
        else:
            paths.append(path)
    return paths


def _check_paths(paths: list[tuple[str, ...]], groups: list[RowGroup]) -> None:
    """Compare the names of the row groups' columns with the schema: a footer has no checksum."""
    for number, group in enumerate(groups):
        if len(group.chunks) != len(paths):
            raise ValueError(
                f"row group {number} holds {len(group.chunks)} columns, {len(paths)} in the schema"
            )
        for chunk, path in zip(group.chunks, paths, strict=True):
            if chunk.path != path:
                raise ValueError(
                    f"row group {number} holds {'.'.join(chunk.path)!r}, "
                    f"{'.'.join(path)!r} in the schema"
                )


def check_row_group(
    raw: pa.NativeFile, group: RowGroup, columns: list[str], options: ReadOptions
) -> int:
    """Refuse a row group whose columns would expand too far.

    Flat columns are decoded batch by batch, so only their largest pages count. A list column may
    be one row, so all its values count. Return the largest number of values of a list column.
    """
    if group.n_rows == 0:
        return 0
    column_names = set(columns)  # a file may have thousands of columns
    page_bytes = list_bytes = stored_bytes = most_values = 0
    for chunk in group.chunks:
        if chunk.path[0] not in column_names:
            continue
        pages = list(_read_pages(raw, chunk))
        page_bytes += max((page.size for page in pages), default=0)
        if len(chunk.path) > 1:
            n_values = sum(page.n_values for page in pages)
            most_values = max(most_values, n_values)
            list_bytes += n_values * chunk.value_bytes
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


def _read_pages(raw: pa.NativeFile, chunk: Chunk) -> Iterator[Page]:
    """Yield the headers of the pages of a chunk, in file order."""
    if not 4 <= chunk.start <= chunk.stop <= raw.size():
        raise _page_error(f"the pages of {'.'.join(chunk.path)!r} are outside the file")
    position = chunk.start
    while position < chunk.stop:
        page, header_bytes = _read_header(raw, position, chunk)
        yield page
        position += header_bytes + page.compressed_size


def _read_header(raw: pa.NativeFile, start: int, chunk: Chunk) -> tuple[Page, int]:
    """Return the page header at ``start`` and its length."""
    for size in (_HEADER_BYTES, _MAX_HEADER_BYTES):
        # Most headers are short; long statistics need a second, larger read.
        data = raw.read_at(min(size, chunk.stop - start), start)
        try:
            fields, header_bytes = read_struct(data, 0, _PAGE)
            data_header = fields.get(5) or fields.get(8) or {}  # of version 1 or version 2
            page = Page(fields[3], fields[2], data_header.get(1, 0))
            if min(page) >= 0:
                return page, header_bytes
            break
        except IndexError:  # the header is longer, or cut
            continue
        except _MALFORMED:
            break
    raise _page_error(f"a page of {'.'.join(chunk.path)!r} has no valid header")


def _page_error(reason: str) -> SchemaError:
    return SchemaError(reason, fix="The file is damaged; write it again")
