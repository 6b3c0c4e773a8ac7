"""The one table of file formats: how each is recognised, read and written.

A reader is a module with

``read_blocks(source, options) -> Iterator[Dataset]``
    Blocks in file order, of any size, not query-aligned; all of width ``options.n_features``
    when that is set. It reads within ``source.watched()``.
``measure(source, options) -> int``
    Number of features of the file, with bounded memory.
``read(source, options) -> Dataset``
    The whole file at once. Where a format does not stream (``streams=False``) there are no
    ``read_blocks`` and ``measure``.

A writer is a function ``(blocks, path, **options) -> int`` of ``rankine.data.writers``: it writes
datasets atomically and returns the number of rows.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

from rankine.core.errors import FileKindError, ParameterError
from rankine.data.compression import strip_compression
from rankine.data.sources import Source


@dataclass(frozen=True)
class Format:
    """One file format.

    Attributes
    ----------
    name
        As in ``format="letor"``.
    suffixes
        Lower-case endings, with the dot, without a compression suffix.
    magic
        First bytes that prove the format, whatever the suffix.
    reader, writer
        A module, and a function of ``rankine.data.writers`` (empty: files of this kind are only
        read); both imported on first use.
    streams
        Whether the file can be read block by block.
    """

    name: str
    suffixes: tuple[str, ...]
    magic: tuple[bytes, ...]
    reader: str
    writer: str = ""
    streams: bool = True


_TEXT = (".txt", ".svm", ".svmlight", ".libsvm", ".letor", ".dat", ".train", ".test", ".vali")
_ARROW = (".arrow", ".arrows", ".feather", ".ipc")
_ARROW_MAGIC = (b"ARROW1", b"\xff\xff\xff\xff", b"FEA1")
_READERS = "rankine.data.readers"

FORMATS = {
    form.name: form
    for form in (
        Format("letor", _TEXT, (), f"{_READERS}.letor", "write_letor"),
        Format("parquet", (".parquet", ".pq"), (b"PAR1",), f"{_READERS}.tables", "write_parquet"),
        Format("arrow", _ARROW, _ARROW_MAGIC, f"{_READERS}.tables", "write_arrow"),
        Format("csv", (".csv", ".tsv"), (), f"{_READERS}.tables"),
        Format("json", (".jsonl", ".ndjson"), (), f"{_READERS}.tables"),
        Format("npz", (".npz",), (b"PK\x03\x04",), f"{_READERS}.npz", "write_npz", streams=False),
    )
}


def choose_format(source: Source, name: str | None, head: bytes) -> Format:
    """Format of a source: as named, else by its first bytes, else by suffix, else text.

    Text is the fallback because its reader recognises and names every other kind of file.
    """
    if name is not None:
        return _named(name)
    for form in FORMATS.values():
        if any(head.startswith(magic) for magic in form.magic):
            return form
    suffix_form = _by_suffix(source.name)
    if suffix_form is not None and suffix_form.magic and head:
        raise FileKindError(
            f"the name says {suffix_form.name} but the content does not",
            file=source.name,
            fix="Check that the file is complete, or pass format=",
        )
    return suffix_form or FORMATS["letor"]


def format_for(path: str | os.PathLike[str], name: str | None = None) -> Format:
    """Format to write a path in, by name or suffix."""
    form = _named(name) if name is not None else _by_suffix(os.fspath(path))
    if form is None or not form.writer:
        known = sorted(suffix for f in FORMATS.values() if f.writer for suffix in f.suffixes)
        raise ParameterError(
            f"no writer for {os.fspath(path)!r}", fix="Use one of the suffixes " + " ".join(known)
        )
    return form


def reader_of(form: Format) -> Any:
    """Reader module of a format."""
    return importlib.import_module(form.reader)


def _named(name: str) -> Format:
    if name not in FORMATS:
        raise ParameterError(
            f"format={name!r} is not known", fix="Choose among " + ", ".join(sorted(FORMATS))
        )
    return FORMATS[name]


def _by_suffix(name: str) -> Format | None:
    bare = strip_compression(name.lower())
    return next((f for f in FORMATS.values() if bare.endswith(f.suffixes)), None)
