"""Writing data: one door for every format, and conversion from one to another."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rankine.core.atomic import atomic_file
from rankine.core.errors import ParameterError, SchemaError
from rankine.data.compression import strip_compression
from rankine.data.dataset import Dataset
from rankine.data.formats import Format, format_for
from rankine.data.open import load, scan


def save(
    data: Dataset | Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the name that load and scan use
    **options: Any,
) -> int:
    """Write a data set, a stream or blocks to a file that appears only when it is complete.

    Parameters
    ----------
    data
        A ``Dataset``, a ``Scan``, or datasets one after the other (then never all in memory).
    path
        The suffix decides the format: ``.txt``, ``.svm`` and others for LETOR text (also with
        ``.gz``, ``.bz2``, ``.xz``, ``.zst``), ``.parquet``, ``.arrow`` / ``.feather``, ``.npz``;
        ``-`` writes text to standard output.
    format
        Name of the format, whatever the suffix.
    **options
        Options of the format's writer: ``layout``, ``compression``, ``base`` ...

    Returns
    -------
    int
        Rows written.

    Examples
    --------
    >>> import numpy as np, rankine, tempfile
    >>> data = Dataset.from_arrays(np.eye(2, dtype=np.float32), [1, 0], ["a", "a"])
    >>> path = tempfile.mkdtemp() + "/data.parquet"
    >>> save(data, path, layout="columns")
    2
    >>> rankine.load(path).fingerprint == data.fingerprint
    True
    """
    from rankine.data import writers

    name = os.fspath(path)
    form = _format(name, format)
    if form.name != "letor" and name == "-":
        raise ParameterError("only text can be written to standard output", fix="Name a file")
    if form.name != "letor" and strip_compression(name) != name:
        raise ParameterError(
            f"{name} is compressed inside, not by its suffix", fix="Use compression= instead"
        )
    write = getattr(writers, form.writer)
    known = set(inspect.signature(write).parameters) - {"blocks", "path"}
    for option in options:
        if option not in known:
            raise ParameterError(
                f"{option}= means nothing for {name}",
                fix="Choose among " + (", ".join(sorted(known)) or "no options"),
            )
    blocks = [data] if isinstance(data, Dataset) else data
    return int(write(blocks, path, **options))


def _format(name: str, chosen: str | None) -> Format:
    return format_for(name, "letor" if name == "-" and chosen is None else chosen)


@dataclass
class ConversionReport:
    """What a conversion did: rows written, runs of equal query ids among them, bad rows skipped.

    ``names_lost`` says that the features' names are in no file, because text holds none.
    """

    rows: int = 0
    queries: int = 0
    features: int = 0
    skipped: int = 0
    missing: int = 0
    names: tuple[str, ...] | None = None
    names_lost: bool = False


def convert(
    source: Any,
    target: str | os.PathLike[str],
    *,
    to: str | None = None,
    names_out: str | os.PathLike[str] | None = None,
    write: dict[str, Any] | None = None,
    **options: Any,
) -> ConversionReport:
    """Read files of any format and write one file, in memory that does not grow with them.

    npz archives are the exception: they are read and written whole. Rows keep their order;
    queries need not be contiguous.

    Parameters
    ----------
    source
        As for ``rankine.load``, or a raw log (``rankine.logs.scan``).
    target
        Its suffix (or ``to``) decides the format; ``-`` is text on standard output.
    names_out
        File for the feature names, one a line: text itself has none.
    write
        Options of the writer: ``layout``, ``compression``, ``base`` ...
    **options
        Fields of ``ReadOptions``.

    Returns
    -------
    ConversionReport
        Counts.
    """
    stream: Any = source if hasattr(source, "blocks") else scan(source, **options)
    if getattr(stream, "whole", False):
        stream = load(source, **options)
    report = ConversionReport(features=stream.n_features, names=stream.feature_names)
    _refuse_overwriting(stream.sources, target)
    if names_out is not None and report.names is None:
        raise ParameterError("the features have no names to write", fix="Leave names_out away")
    cut = getattr(stream, "raw_blocks", stream.blocks)
    report.rows = save(_counted(cut(), report), target, format=to, **(write or {}))
    if names_out is not None and report.names is not None:
        _write_names(report.names, names_out)
    is_text = _format(os.fspath(target), to).name == "letor"
    report.names_lost = is_text and report.names is not None and names_out is None
    return report


def _counted(blocks: Iterator[Dataset], report: ConversionReport) -> Iterator[Dataset]:
    last = None
    for block in blocks:
        report.skipped += block.read_counts.get("skipped_rows", 0)
        report.missing += block.read_counts.get("missing_values", 0)
        if block.n_rows == 0:
            continue
        qid = block.qid
        report.queries += int((qid[1:] != qid[:-1]).sum()) + int(last is None or qid[0] != last)
        last = qid[-1]
        yield replace(block, lines=None)


def _refuse_overwriting(sources: tuple[str, ...], target: str | os.PathLike[str]) -> None:
    for name in sources:
        if Path(name).exists() and Path(target).exists() and Path(name).samefile(target):
            raise ParameterError(
                f"{name} is read and would be overwritten", fix="Write to another file"
            )


def _write_names(names: tuple[str, ...], path: str | os.PathLike[str]) -> None:
    for name in names:
        if name.strip() != name or not name or len(name.splitlines()) != 1:
            raise SchemaError(
                f"feature name {name!r} does not fit on a line", fix="Rename the feature"
            )
    with atomic_file(path) as file:
        file.write("".join(f"{name}\n" for name in names).encode())
