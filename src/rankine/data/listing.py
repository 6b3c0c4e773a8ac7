"""List the files of folders and patterns, on any filesystem of Arrow, with their Hive columns.

A folder such as ``log/date=2026-11-01/`` gives the rows of its files the column ``date``.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from rankine.core.errors import DataError, EmptyDataError, FileKindError, SchemaError
from rankine.data.compression import strip_compression
from rankine.data.formats import FORMATS

if TYPE_CHECKING:
    from rankine.core.stores import Store
    from rankine.data.sources import Source

#: Value of a Hive column in the folder of rows in which it is missing.
_MISSING = ("__HIVE_DEFAULT_PARTITION__", "")
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})|0\d")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?")


def list_tables(filesystem: fs.FileSystem | Store, folder: str) -> list[str]:
    """Return the tables in a folder and the folders below it, in order of their paths.

    Files and folders whose names start with a dot or an underscore are left out, as Spark and Hive
    do. Other files that are no tables are an error: they might be data.
    """
    # Stores name their objects by URL.
    name_of = getattr(filesystem, "url", str)
    try:
        files = filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
    except OSError as error:
        raise DataError(
            f"cannot be listed: {error}",
            file=name_of(folder),
            fix="Check the path and its permissions",
        ) from error
    root = PurePosixPath(folder)
    tables: list[str] = []
    others: list[str] = []
    for file in files:
        path = PurePosixPath(file.path)
        if file.type != fs.FileType.File or is_hidden(path.relative_to(root).parts):
            continue
        is_table = strip_compression(path.name.lower()).endswith(_table_suffixes())
        (tables if is_table else others).append(file.path)
    pattern = folder.rstrip("/")
    if not tables:
        # A collection of text has a note or two as well, so the most frequent suffix counts.
        endings = ["".join(PurePosixPath(other).suffixes) for other in others]
        ending = max(endings, key=endings.count, default=".txt")
        raise EmptyDataError(
            "is a folder without tables",
            file=name_of(folder),
            fix=f"Name files, or a pattern such as '{pattern}/*{ending}'",
        )
    if others:
        raise FileKindError(
            f"the folder {folder} also holds this file, which is no table by its suffix",
            file=name_of(min(others)),
            fix=f"Move it, or name the tables: '{pattern}/**/*.parquet'",
        )
    return sorted(tables)


def is_hidden(parts: Iterable[str]) -> bool:
    """Whether a path below a folder is no data by its name, such as ``_SUCCESS``."""
    return any(part[0] == "." or (part[0] == "_" and "=" not in part) for part in parts)


def _table_suffixes() -> tuple[str, ...]:
    formats = [form for form in FORMATS.values() if form.reader and form.name != "letor"]
    return tuple(suffix for form in formats for suffix in form.suffixes)


def match_pattern(filesystem: fs.FileSystem | Store, pattern: str) -> list[str]:
    """Return the files and folders that match a pattern of ``*``, ``?``, ``[]`` and ``**``."""
    parts = PurePosixPath(pattern).parts
    n_plain = next(k for k, part in enumerate(parts) if set("*?[") & set(part))
    root = str(PurePosixPath(*parts[:n_plain])) if n_plain else ""
    infos = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True))
    wildcards = parts[n_plain:]
    return sorted(
        info.path
        for info in infos
        if _matches_parts(PurePosixPath(info.path).relative_to(root).parts, wildcards)
    )


def _matches_parts(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**" and _matches_parts(parts, patterns[1:]):
        return True
    # As in a shell, names that start with a dot are matched by a dot alone.
    if not parts or (parts[0].startswith(".") and not patterns[0].startswith(".")):
        return False
    if patterns[0] == "**":
        return _matches_parts(parts[1:], patterns)
    return fnmatch.fnmatchcase(parts[0], patterns[0]) and _matches_parts(parts[1:], patterns[1:])


def hive_values(path: str) -> dict[str, str | None]:
    """Return the Hive columns in the folders of a path, with their texts; None where missing.

    >>> hive_values("log/date=2026-11-01/shop=a%20b/part-0.parquet")
    {'date': '2026-11-01', 'shop': 'a b'}
    """
    values: dict[str, str | None] = {}
    for part in PurePosixPath(path).parts[:-1]:
        name, equals, text = part.partition("=")
        if name and equals:
            value = unquote(text)
            values[unquote(name)] = None if value in _MISSING else value
    return values


def add_partitions(sources: Sequence[Source]) -> None:
    """Give files the Hive columns of their paths, each with one type in all files.

    Whole numbers, dates and times become such; all other columns are text.
    """
    values = [hive_values(source.file_path) for source in sources]
    for name in dict.fromkeys(name for each in values for name in each):
        texts = [each[name] for each in values if each.get(name) is not None]
        data_type = _infer_type(texts)
        for source, each in zip(sources, values, strict=True):
            if name in each:
                text = pa.array([each[name]], pa.string() if texts else pa.null())
                source.partition[name] = text.cast(data_type)[0]


def _infer_type(texts: Sequence[Any]) -> pa.DataType:
    if not texts:
        return pa.null()
    for pattern, data_type in (
        (_INTEGER, pa.int64()),
        (_DATE, pa.date32()),
        (_TIMESTAMP, pa.timestamp("us")),
    ):
        if all(pattern.fullmatch(text) for text in texts):
            try:
                pa.array(texts).cast(data_type)
            except pa.ArrowInvalid:  # such as the 31st of February
                continue
            return data_type
    return pa.string()


def require_same_partitions(sources: Sequence[Source]) -> None:
    """Raise unless all files have the same Hive columns."""
    first = sources[0]
    for source in sources[1:]:
        for name in {*first.partition} ^ {*source.partition}:
            has, lacks = (first, source) if name in first.partition else (source, first)
            raise SchemaError(
                f"no folder {name}=... in its path, as {has.name} has",
                file=lacks.name,
                fix="Read files of the same folders together",
                column=name,
            )


def partition_order(partition: Mapping[str, pa.Scalar]) -> list[tuple[bool, Any]]:
    """Return a key that sorts files by the values of their Hive columns, missing ones last."""
    values = (scalar.as_py() for scalar in partition.values())
    return [(value is None, 0 if value is None else value) for value in values]
