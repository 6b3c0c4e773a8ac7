"""Just enough of Thrift's compact protocol to read the descriptions inside Parquet files.

A ``spec`` says which fields of a struct are wanted: ``{number: kind}`` where a kind is ``INT``,
``TEXT``, ``BYTES``, another spec, or a list of one of these. Everything else is passed over.
Malformed data raise ValueError, data that end too early IndexError.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BYTES", "INT", "TEXT", "read_struct"]

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
        size, inner, place = _list_head(data, place)
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
        size, inner, place = _list_head(data, place)
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
    _bounded(size, data, place)
    for _ in range(size):
        for kind in (kinds >> 4, kinds & 15):
            place = place + 1 if kind in _BOOLS else _skip(data, place, kind, depth + 1)
    return place


def _list_head(data: bytes, place: int) -> tuple[int, int, int]:
    """Size, kind of the items, and where they start."""
    head = data[place]
    size, place = (head >> 4, place + 1) if head < 240 else _varint(data, place + 1)
    _bounded(size, data, place)
    return size, head & 15, place


def _bounded(size: int, data: bytes, place: int) -> None:
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
