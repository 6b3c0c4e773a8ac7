"""Read JSON documents of other systems: one on each line, or one in each file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rankine.core.errors import ParseError
from rankine.data.compression import open_stream
from rankine.data.options import ReadOptions
from rankine.data.sources import Source, find_sources

_BLOCK = 1 << 20


class Location(NamedTuple):
    """File and line of a document; no line if it is the whole file."""

    file: str
    line: int | None


def read_whole(source: Source) -> bytes:
    """Read and decompress a whole source."""
    parts, buffer = [], bytearray(_BLOCK)
    with open_stream(source, ReadOptions.make()) as stream:
        while count := stream.readinto(memoryview(buffer)):
            parts.append(bytes(buffer[:count]))
    return b"".join(parts)


def read_json(paths: Any) -> Iterator[tuple[Any, Location]]:
    """Yield the JSON of each ``.json`` file, and of each line of other files."""
    for source in find_sources(paths):
        if ".json" in Path(source.name).suffixes:
            texts: Iterator[tuple[int | None, bytes]] = iter([(None, read_whole(source))])
        else:
            texts = _lines(source)
        for line, text in texts:
            if text.strip():
                location = Location(source.name, line)
                yield _decode(text, location), location


def read_documents(paths: Any) -> Iterator[tuple[dict[str, Any], Location]]:
    """Yield the objects in files: alone, in lists, or as the hits of a search.

    Exports of search engines wrap each object as ``_source``.
    """
    for value, location in read_json(paths):
        documents = value if isinstance(value, list) else [value]
        if isinstance(value, dict) and isinstance(value.get("hits"), dict):
            documents = value["hits"].get("hits") or []
        for entry in documents:
            document = entry.get("_source", entry) if isinstance(entry, dict) else None
            if not isinstance(document, dict):
                raise ParseError(
                    "this is no JSON object",
                    file=location.file,
                    line=location.line,
                    fix='Write objects, such as {"timestamp": ...}',
                )
            yield document, location


def _lines(source: Source) -> Iterator[tuple[int | None, bytes]]:
    """Yield numbered lines, read block by block."""
    with open_stream(source, ReadOptions.make()) as stream:
        partial_line, n_lines, buffer = b"", 0, bytearray(_BLOCK)
        while count := stream.readinto(memoryview(buffer)):
            # The last part has no line end yet: the next block continues it.
            *lines, partial_line = (partial_line + bytes(buffer[:count])).split(b"\n")
            yield from enumerate(lines, n_lines + 1)
            n_lines += len(lines)
        yield n_lines + 1, partial_line


def _decode(text: bytes, location: Location) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(
            f"this is not JSON: {error}",
            file=location.file,
            line=location.line,
            fix="Write one document per line in .jsonl files, one document per .json file",
        ) from error
