"""Sizes of Parquet pages before any is decoded.

A file's footer may say what it likes; Arrow decodes what the header of each page says. Both
(``parquet.thrift``) are read here, so that a few bytes cannot ask for gigabytes, and so that
nothing depends on Arrow's own view of a damaged footer, which can end the process.

Thrift's compact protocol is read by a ``spec`` that says which fields of a struct are wanted:
``{number: kind}`` where a kind is ``INT``, ``TEXT``, ``BYTES``, another spec, or a list of one of
these. Everything else is passed over. Malformed data raise ValueError, data that end too early
IndexError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rankine.core.errors import FileKindError, LimitError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from rankine.data.options import ReadOptions


INT = "int"
TEXT = "text"
BYTES = "bytes"

_MAX_DEPTH = 12
_BOOLS, _BYTE, _INTS, _DOUBLE, _BINARY, _LISTS, _MAP, _STRUCT, _UUID = (
    frozenset((1, 2)), 3, frozenset((4, 5, 6)), 7, 8, frozenset((9, 10)), 11, 12, 13,
)  # fmt: skip


def read_struct(
    data: bytes, place: int, spec: dict[int, Any], depth: int = 0
) -> tuple[dict[int, Any], int]:
    """Wanted fields of the struct at ``place``, and where it ends."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[place]:
        place += 1
        kind = head & 15
        if head > 15:
            number += head >> 4
        else:
            number, place = _integer(data, place)
        wanted = spec.get(number)
        if wanted is None:
            place = place if kind in _BOOLS else _skip(data, place, kind, depth)
        else:
            fields[number], place = _value(data, place, kind, wanted, depth)
    return fields, place + 1


def _value(data: bytes, place: int, kind: int, wanted: Any, depth: int) -> tuple[Any, int]:
    if kind in _INTS and wanted is INT:
        return _integer(data, place)
    if kind == _STRUCT and isinstance(wanted, dict):
        return read_struct(data, place, wanted, depth + 1)
    if kind == _BINARY and wanted in (TEXT, BYTES):
        length, place = _varint(data, place)
        piece = _piece(data, place, length)
        return piece.decode() if wanted is TEXT else piece, place + length
    if kind in _LISTS and isinstance(wanted, list):
        size, inner, place = _list_head(data, place, depth)
        items = []
        for _ in range(size):
            item, place = _value(data, place, inner, wanted[0], depth + 1)
            items.append(item)
        return items, place
    raise ValueError(f"a field of kind {kind} where another was expected")


def _skip(data: bytes, place: int, kind: int, depth: int) -> int:
    """Where the value at ``place`` ends."""
    if kind in _INTS:
        while data[place] > 127:
            place += 1
        return place + 1
    if kind == _STRUCT:
        return _skip_struct(data, place, depth + 1)
    if kind == _BINARY:
        length, place = _varint(data, place)
        return place + length
    if kind in _LISTS:
        size, inner, place = _list_head(data, place, depth)
        for _ in range(size):
            place = place + 1 if inner in _BOOLS else _skip(data, place, inner, depth + 1)
        return place
    if kind == _MAP:
        return _skip_map(data, place, depth)
    sizes = {_BYTE: 1, _DOUBLE: 8, _UUID: 16}
    if kind not in sizes:
        raise ValueError(f"unknown kind {kind}")
    return place + sizes[kind]


def _skip_struct(data: bytes, place: int, depth: int) -> int:
    """Where the struct at ``place`` ends; statistics make this the busiest loop."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    while head := data[place]:
        place += 1
        if head < 16:
            place = _skip(data, place, 4, depth)
        kind = head & 15
        if kind == _BINARY:
            length = data[place]
            place += length + 1
            if length > 127:
                length, place = _varint(data, place - length - 1)
                place += length
        elif kind > 2:
            place = _skip(data, place, kind, depth)
    return place + 1


def _skip_map(data: bytes, place: int, depth: int) -> int:
    size, place = _varint(data, place)
    if size == 0:
        return place
    kinds = data[place]
    place += 1
    _bounded(size, data, place, depth)
    for _ in range(size):
        for kind in (kinds >> 4, kinds & 15):
            place = place + 1 if kind in _BOOLS else _skip(data, place, kind, depth + 1)
    return place


def _list_head(data: bytes, place: int, depth: int) -> tuple[int, int, int]:
    """Size, kind of the items, and where they start."""
    head = data[place]
    size, place = (head >> 4, place + 1) if head < 240 else _varint(data, place + 1)
    _bounded(size, data, place, depth)
    return size, head & 15, place


def _bounded(size: int, data: bytes, place: int, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if size > len(data) - place:  # every item takes at least a byte
        raise IndexError("a list longer than the data")


def _piece(data: bytes, place: int, length: int) -> bytes:
    if length > len(data) - place:
        raise IndexError("a text longer than the data")
    return data[place : place + length]


def _integer(data: bytes, place: int) -> tuple[int, int]:
    value, place = _varint(data, place)
    return (value >> 1) ^ -(value & 1), place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    byte = data[place]
    if byte < 128:
        return byte, place + 1
    value, shift = byte & 127, 7
    while True:
        place += 1
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place + 1
        shift += 7
        if shift > 63:
            raise ValueError("a number too long")


#: Expansion is not judged below this size: small data may be very repetitive.
RATIO_FREE = 64 * 2**20
_MAX_FOOTER = 2**28
_HEADER_BYTES = 2048
_MAX_HEADER_BYTES = 2**22
_WIDE = frozenset((2, 5))  # physical types of eight bytes: INT64, DOUBLE
_CHUNK = {1: INT, 3: [TEXT], 5: INT, 7: INT, 9: INT, 11: INT}
_SCHEMA = [{4: TEXT, 5: INT}]
_FOOTER = {2: _SCHEMA, 3: INT, 4: [{1: [{3: _CHUNK}], 3: INT}]}
_BOUNDED_CHUNK = {**_CHUNK, 12: {5: BYTES, 6: BYTES}}
_WITH_BOUNDS = {2: _SCHEMA, 3: INT, 4: [{1: [{3: _BOUNDED_CHUNK}], 3: INT}]}
_PAGE = {2: INT, 3: INT, 5: {1: INT}, 8: {1: INT}}


class Chunk(NamedTuple):
    """Where the pages of one column of one row group lie, and how many items they hold.

    ``least`` and ``most`` bound the items, as stored; empty when not asked for or not known.
    """

    path: tuple[str, ...]
    width: int
    start: int
    stop: int
    items: int
    least: bytes
    most: bytes


class RowGroup(NamedTuple):
    """What the footer says about a row group."""

    n_rows: int
    chunks: list[Chunk]


class Page(NamedTuple):
    """What the header of a page says."""

    stored: int
    expanded: int
    items: int


def read_footer(raw: pa.NativeFile, *, bounds: bool = False) -> list[RowGroup]:
    """Row groups of a file, with the ``bounds`` of their columns; malformed ones are an error."""
    size = raw.size()
    tail = raw.read_at(8, max(size - 8, 0))
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or not 0 < length <= min(size - 12, _MAX_FOOTER):
        raise FileKindError(
            "not a complete Parquet file: no footer at its end",
            fix="Fetch or write it again; encrypted files cannot be read",
        )
    data = raw.read_at(length, size - 8 - length)
    try:
        found, _ = read_struct(data, 0, _WITH_BOUNDS if bounds else _FOOTER)
        groups = [
            RowGroup(group[3], [_chunk(column[3]) for column in group[1]])
            for group in found.get(4, [])
        ]
        counted = sum(group.n_rows for group in groups)
        if found[3] != counted:
            raise ValueError(f"{found[3]} rows in all, but {counted} in its row groups")
        _check_names(_leaves(found[2]), groups)
    except (KeyError, IndexError, ValueError) as error:
        raise FileKindError(
            f"the Parquet footer is damaged: {error}", fix="Fetch or write it again"
        ) from error
    return groups


def _leaves(schema: list[dict[int, Any]]) -> list[tuple[str, ...]]:
    """Paths of the columns of a schema, which is stored depth first, its root at the start."""
    paths: list[tuple[str, ...]] = []
    above: list[tuple[tuple[str, ...], int]] = [((), schema[0].get(5, 0))]
    for element in schema[1:]:
        while above and above[-1][1] == 0:
            above.pop()
        path, left = above[-1]
        above[-1] = (path, left - 1)
        path = (*path, element[4])
        if element.get(5, 0) > 0:
            above.append((path, element[5]))
        else:
            paths.append(path)
    return paths


def _check_names(paths: list[tuple[str, ...]], groups: list[RowGroup]) -> None:
    """A footer has no checksum, but names every column in its schema and in each row group."""
    for number, group in enumerate(groups):
        held = [chunk.path for chunk in group.chunks]
        if held != paths:
            twins = zip(paths, held, strict=False)
            first = next((f"{'.'.join(b)!r}, {'.'.join(a)!r} in" for a, b in twins if a != b), None)
            what = (
                f"{first} the schema"
                if first
                else f"{len(held)} columns, {len(paths)} in the schema"
            )
            raise ValueError(f"row group {number} holds {what}")


def _chunk(fields: dict[int, Any]) -> Chunk:
    start = fields[9]
    if fields.get(11, 0) > 0:
        start = min(start, fields[11])
    width = 8 if fields[1] in _WIDE else 4
    known = fields.get(12, {})
    return Chunk(
        tuple(fields[3]),
        width,
        start,
        start + fields[7],
        fields.get(5, 0),
        known.get(6, b""),
        known.get(5, b""),
    )


def check_row_group(
    raw: pa.NativeFile, group: RowGroup, columns: list[str], options: ReadOptions
) -> int:
    """Refuse a row group whose columns would expand too far.

    Flat columns are decoded batch by batch, so only their largest pages count; a list column may
    be one row, so all its items count. Returns the largest number of items of a list column.
    """
    if group.n_rows == 0:
        return 0
    wanted = set(columns)
    together = items = list_bytes = stored = 0
    for chunk in group.chunks:
        if chunk.path[0] not in wanted:
            continue
        pages = list(_pages(raw, chunk))
        together += max((page.expanded for page in pages), default=0)
        if len(chunk.path) > 1:
            count = sum(page.items for page in pages)
            items = max(items, count)
            list_bytes += count * chunk.width
            stored += sum(page.stored for page in pages)
    needed = max(together, list_bytes)
    if needed > options.memory_limit // 4:
        raise LimitError(
            f"a row group needs {needed} bytes at once, above a quarter of max_memory",
            fix="Write smaller row groups and pages, or pass a larger max_memory",
        )
    if list_bytes > RATIO_FREE and list_bytes > options.max_ratio * max(stored, 1):
        raise LimitError(
            f"a row group expands to more than {options.max_ratio} times its size",
            fix="If the file can be trusted, pass a larger max_ratio",
        )
    return items


def _pages(raw: pa.NativeFile, chunk: Chunk) -> Iterator[Page]:
    """Headers of the pages of one column chunk, in file order."""
    if not 4 <= chunk.start <= chunk.stop <= raw.size():
        raise _damaged(f"the pages of {'.'.join(chunk.path)!r} lie outside the file")
    place = chunk.start
    while place < chunk.stop:
        found = _header(raw, place, chunk.stop)
        if found is None or min(found[0]) < 0:
            raise _damaged(f"a page of {'.'.join(chunk.path)!r} has no valid header")
        header, length = found
        yield header
        place += length + header.stored


def _damaged(reason: str) -> SchemaError:
    return SchemaError(reason, fix="The file is damaged; write it again")


def _header(raw: pa.NativeFile, place: int, end: int) -> tuple[Page, int] | None:
    """The page header at ``place`` and its length; None when it cannot be one."""
    for size in (_HEADER_BYTES, _MAX_HEADER_BYTES):
        data = raw.read_at(min(size, end - place), place)
        try:
            fields, length = read_struct(data, 0, _PAGE)
            items = (fields.get(5) or fields.get(8) or {}).get(1, 0)
            return Page(fields[3], fields[2], items), length
        except IndexError:
            continue
        except (KeyError, ValueError):
            return None
    return None
