"""Sizes of Parquet pages before any is decoded.

A file's footer may say what it likes; Arrow decodes what the header of each page says. These
headers (Thrift compact protocol, ``parquet.thrift``) are walked here, so that a few bytes cannot
ask for gigabytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rankine.core.errors import LimitError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from rankine.data.options import ReadOptions

__all__ = ["check_row_group"]

#: Expansion is not judged below this size: small data may be very repetitive.
RATIO_FREE = 64 * 2**20
_HEADER_BYTES = 2048
_MAX_HEADER_BYTES = 2**22
_INTEGERS = frozenset((3, 4, 5, 6))
_DATA_HEADERS = (5, 8)


class Page(NamedTuple):
    """What the header of a page says."""

    stored: int
    expanded: int
    items: int


def check_row_group(
    raw: pa.NativeFile, group: Any, columns: set[str], options: ReadOptions, file: str, part: str
) -> int:
    """Refuse a row group whose columns would expand too far.

    Flat columns are decoded batch by batch, so only their largest pages count; a list column may
    be one row, so all its items count. Returns the largest number of items of a list column.
    """
    if group.num_rows == 0:
        return 0
    pages = items = list_bytes = stored = 0
    for k in range(group.num_columns):
        column = group.column(k)
        top, _, inner = column.path_in_schema.partition(".")
        if top not in columns and column.path_in_schema not in columns:
            continue
        found = list(_pages(raw, column, file, part))
        pages += max((page.expanded for page in found), default=0)
        if inner and column.path_in_schema not in columns:
            count = sum(page.items for page in found)
            items = max(items, count)
            list_bytes += count * (8 if column.physical_type in ("INT64", "DOUBLE") else 4)
            stored += sum(page.stored for page in found)
    budget = options.memory_limit // 4
    needed = max(pages, list_bytes)
    if needed > budget:
        raise LimitError(
            f"{part} needs {needed} bytes at once, above a quarter of max_memory",
            fix="Write smaller row groups and pages, or pass a larger max_memory",
            file=file,
        )
    if list_bytes > RATIO_FREE and list_bytes > options.max_ratio * max(stored, 1):
        raise LimitError(
            f"{part} expands to more than {options.max_ratio} times its size",
            fix="If the file can be trusted, pass a larger max_ratio",
            file=file,
        )
    return items


def _pages(raw: pa.NativeFile, column: Any, file: str, part: str) -> Iterator[Page]:
    """Headers of the pages of one column chunk, in file order."""
    starts = [column.data_page_offset]
    if column.has_dictionary_page and column.dictionary_page_offset:
        starts.append(column.dictionary_page_offset)
    place = min(starts)
    end = place + column.total_compressed_size
    if place < 4 or end > raw.size():
        raise SchemaError(
            f"{part}: pages of {column.path_in_schema!r} lie outside the file",
            fix="The file is damaged; write it again",
            file=file,
        )
    while place < end:
        header, length = _header(raw, place, end)
        if header is None or header.stored < 0 or header.expanded < 0 or header.items < 0:
            raise SchemaError(
                f"{part}: a page of {column.path_in_schema!r} has no valid header",
                fix="The file is damaged; write it again",
                file=file,
            )
        yield header
        place += length + header.stored


def _header(raw: pa.NativeFile, place: int, end: int) -> tuple[Page | None, int]:
    """The page header at ``place`` and its length; None when it cannot be one."""
    size = _HEADER_BYTES
    while True:
        data = raw.read_at(min(size, end - place), place)
        try:
            fields, length = _struct(data, 0, 0)
        except IndexError:
            if size >= min(end - place, _MAX_HEADER_BYTES):
                return None, 0
            size *= 16
            continue
        except ValueError:
            return None, 0
        headers = [fields[k] for k in _DATA_HEADERS if isinstance(fields.get(k), dict)]
        expanded, stored = fields.get(2), fields.get(3)
        if not isinstance(expanded, int) or not isinstance(stored, int):
            return None, 0
        return Page(stored, expanded, headers[0].get(1, 0) if headers else 0), length


def _struct(data: bytes, place: int, depth: int) -> tuple[dict[int, Any], int]:
    """Integer and struct fields of a Thrift struct; other fields are passed over."""
    if depth > 4:
        raise ValueError("nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while (head := data[place]) != 0:
        place += 1
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, place = _integer(data, place)
        if kind in _INTEGERS:
            fields[number], place = _integer(data, place) if kind != 3 else (data[place], place + 1)
        elif kind == 12:
            fields[number], place = _struct(data, place, depth + 1)
        elif kind == 8:
            length, place = _varint(data, place)
            place += length
        elif kind not in (1, 2):
            raise ValueError("not part of a page header")
    return fields, place + 1


def _integer(data: bytes, place: int) -> tuple[int, int]:
    value, place = _varint(data, place)
    return (value >> 1) ^ -(value & 1), place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("number too long")
