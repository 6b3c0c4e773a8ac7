"""The one table of file formats: how each is recognised, read and written.

A reader is a module with

``read_blocks(source, options) -> Iterator[Dataset]``
    Blocks in file order, of any size, not query-aligned; all of width ``options.n_features``
    when that is set. It calls ``source.check()`` when it has read everything.
``measure(source, options) -> int``
    Number of features of the file, with bounded memory.
``read(source, options) -> Dataset``
    The whole file at once: where that is faster than joining blocks, or where a format does not
    stream (``streams=False``; then there are no ``read_blocks`` and ``measure``).

A writer is a module with

``write_blocks(blocks, path, **options) -> int``
    Write an iterable of datasets atomically; returns the number of rows.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankine.core.errors import FileKindError, ParameterError
from rankine.data.compression import strip_compression

if TYPE_CHECKING:
    from rankine.data.sources import Source

__all__ = ["FORMATS", "Format", "choose_format", "register", "writer_for"]


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
        Modules, imported on first use; None when there is none.
    streams
        Whether the file can be read block by block.
    """

    name: str
    suffixes: tuple[str, ...]
    magic: tuple[bytes, ...] = ()
    reader: str | None = None
    writer: str | None = None
    streams: bool = True


FORMATS: dict[str, Format] = {}


def register(form: Format) -> Format:
    """Add a format to the table."""
    FORMATS[form.name] = form
    return form


register(
    Format(
        "letor",
        (".txt", ".svm", ".svmlight", ".libsvm", ".letor", ".dat", ".train", ".test", ".vali"),
        reader="rankine.data.readers.letor",
        writer="rankine.data.writers.letor",
    )
)
register(
    Format(
        "parquet",
        (".parquet", ".pq"),
        (b"PAR1",),
        reader="rankine.data.readers.parquet",
        writer="rankine.data.writers.parquet",
    )
)
register(
    Format(
        "arrow",
        (".arrow", ".arrows", ".feather", ".ipc"),
        (b"ARROW1", b"\xff\xff\xff\xff", b"FEA1"),
        reader="rankine.data.readers.arrow",
        writer="rankine.data.writers.arrow",
    )
)
register(
    Format(
        "npz",
        (".npz",),
        (b"PK\x03\x04",),
        reader="rankine.data.readers.npz",
        writer="rankine.data.writers.npz",
        streams=False,
    )
)


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


def writer_for(path: str | os.PathLike[str], name: str | None = None) -> Any:
    """Writer module for a path, by name or suffix."""
    form = _named(name) if name is not None else _by_suffix(os.fspath(path))
    if form is None or form.writer is None:
        known = sorted(s for f in FORMATS.values() if f.writer for s in f.suffixes)
        raise ParameterError(
            f"no writer for {os.fspath(path)!r}", fix="Use one of the suffixes " + " ".join(known)
        )
    return importlib.import_module(form.writer)


def reader_of(form: Format) -> Any:
    """Reader module of a format."""
    if form.reader is None:
        raise ParameterError(f"format {form.name!r} cannot be read", fix="Convert the file first")
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
