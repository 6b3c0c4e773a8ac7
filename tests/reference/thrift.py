"""Write values in Thrift's compact protocol, as far as Parquet needs it."""

from __future__ import annotations


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def zigzag(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def field(step: int, kind: int, content: bytes = b"") -> bytes:
    """Write a field whose number is ``step`` above that of the previous field."""
    return bytes([step << 4 | kind]) + content
