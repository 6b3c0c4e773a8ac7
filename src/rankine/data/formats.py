"""The table of file formats: how each is recognised, read and written.

A reader is a module with

``read(source, options) -> Dataset``
    The whole file at once.
``read_blocks(source, options) -> Iterator[Dataset]``
    Blocks in file order, of any size, not query-aligned. All have ``options.n_features`` features
    when that is set. Reading happens within ``source.watched()``.
``measure(source, options) -> int``
    Number of features of the file, in bounded memory.
``feature_names(source, options) -> tuple[str, ...] | None``
    Names of the features, or None where the file has none.

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
        First bytes that prove the format; the suffix does not matter then.
    reader, writer
        A module, and a function of ``rankine.data.writers``; both imported on first use. Empty:
        files of this format are only written, or only read.
    unreadable_fix
        How to read a file of a format without a reader.
    """

    name: str
    suffixes: tuple[str, ...]
    magic: tuple[bytes, ...]
    reader: str = ""
    writer: str = ""
    unreadable_fix: str = ""


_TEXT = (".txt", ".svm", ".svmlight", ".libsvm", ".letor", ".dat", ".train", ".test", ".vali")
_ARROW = (".arrow", ".arrows", ".feather", ".ipc")
_ARROW_MAGIC = (b"ARROW1", b"\xff\xff\xff\xff", b"FEA1")
_LETOR_READER = "rankine.data.readers.letor"
_TABLE_READER = "rankine.data.readers.tables"
_NPZ_FIX = (
    "Load it with numpy and pass the arrays: file = numpy.load(path); "
    "rankine.Dataset.from_arrays(file['X'], file['y'], file['qid'])"
)

FORMATS = {
    form.name: form
    for form in (
        Format("letor", _TEXT, (), _LETOR_READER, "write_letor"),
        Format("parquet", (".parquet", ".pq"), (b"PAR1",), _TABLE_READER, "write_parquet"),
        Format("arrow", _ARROW, _ARROW_MAGIC, _TABLE_READER, "write_arrow"),
        Format("csv", (".csv", ".tsv"), (), _TABLE_READER),
        Format("json", (".jsonl", ".ndjson"), (), _TABLE_READER),
        Format("npz", (".npz",), (), writer="write_npz", unreadable_fix=_NPZ_FIX),
    )
}


def choose_format(source: Source, name: str | None, head: bytes) -> Format:
    """Return the format to read a source in: as named, or by first bytes, or by suffix, or text.

    Text is the fallback because its reader recognises and names every other kind of file. Tables
    in memory are read as Arrow.
    """
    if source.table is not None:
        if name not in (None, "arrow"):
            raise ParameterError(
                f"{name!r} is the format of files, and this is a table in memory",
                parameter="format",
                fix="Leave it out",
            )
        return FORMATS["arrow"]
    form = _recognise(source, head) if name is None else _by_name(name)
    if not form.reader:
        raise FileKindError(
            f"{form.name} files are written but not read", file=source.name, fix=form.unreadable_fix
        )
    return form


def _recognise(source: Source, head: bytes) -> Format:
    for form in FORMATS.values():
        if any(head.startswith(magic) for magic in form.magic):
            return form
    suffix_form = _by_suffix(source.name)
    if suffix_form is not None and suffix_form.magic and head:
        raise FileKindError(
            f"the suffix of the name is for {suffix_form.name} files, but the content is not",
            file=source.name,
            fix="Check that the file is complete, or pass its format",
        )
    return suffix_form or FORMATS["letor"]


def format_for(path: str | os.PathLike[str], name: str | None = None) -> Format:
    """Return the format to write a path in, by name or suffix."""
    form = _by_suffix(os.fspath(path)) if name is None else _by_name(name)
    if form is None or not form.writer:
        suffixes = sorted(suffix for f in FORMATS.values() if f.writer for suffix in f.suffixes)
        raise ParameterError(
            f"no writer for {os.fspath(path)!r}",
            parameter="path",
            fix="Use one of the suffixes " + " ".join(suffixes),
        )
    return form


def reader_of(form: Format) -> Any:
    """Import the reader module of a format."""
    return importlib.import_module(form.reader)


def _by_name(name: str) -> Format:
    if name not in FORMATS:
        raise ParameterError(
            f"{name!r} is not the name of a format",
            parameter="format",
            fix="Choose among " + ", ".join(sorted(FORMATS)),
        )
    return FORMATS[name]


def _by_suffix(name: str) -> Format | None:
    uncompressed = strip_compression(name.lower())
    return next((f for f in FORMATS.values() if uncompressed.endswith(f.suffixes)), None)
