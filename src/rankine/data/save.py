"""Write data: ``save`` for every format, and ``convert`` from one format to another."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rankine.core.atomic import atomic_file
from rankine.core.errors import ParameterError, SchemaError
from rankine.data.compression import strip_compression
from rankine.data.dataset import Dataset
from rankine.data.formats import Format, format_for
from rankine.data.open import scan
from rankine.data.streams import LabelledStream


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
        ``.gz``, ``.bz2``, ``.xz``, ``.zst``), ``.parquet``, ``.arrow`` / ``.feather``, and
        ``.npz`` for ``numpy.load``; ``-`` writes text to standard output.
    format
        Name of the format, instead of the suffix's.
    **options
        Options of the format's writer: ``layout``, ``compression``, ``base`` ...

    Returns
    -------
    int
        Number of rows written.

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
    form = _target_format(name, format)
    if form.name != "letor" and name == "-":
        raise ParameterError(
            "only text can be written to standard output", parameter="path", fix="Name a file"
        )
    if form.name != "letor" and strip_compression(name) != name:
        raise ParameterError(
            f"{name} is compressed inside, not by its suffix",
            parameter="path",
            fix="Leave out the suffix, and choose the compression by its own option",
        )
    # Options are compared with the writer's parameters: one that it lacks would be ignored.
    write = getattr(writers, form.writer)
    writer_options = set(inspect.signature(write).parameters) - {"blocks", "path"}
    for option in options:
        if option not in writer_options:
            raise ParameterError(
                f"not an option of {form.name} files such as {name}",
                parameter=option,
                fix="Choose among " + (", ".join(sorted(writer_options)) or "no options"),
            )
    blocks = [data] if isinstance(data, Dataset) else data
    return int(write(blocks, path, **options))


def _target_format(path: str, name: str | None) -> Format:
    if path == "-" and name is None:
        name = "letor"
    return format_for(path, name)


@dataclass
class ConversionReport:
    """What a conversion did.

    Attributes
    ----------
    rows, queries
        Rows written, and runs of equal query ids among them.
    features, names
        Width of the rows, and the names of the features or None.
    skipped, missing
        Bad rows that were skipped, and missing values.
    read_counts
        The counts of all blocks.
    names_lost
        Whether the names of the features are in no file, because text has no place for them.
    """

    rows: int = 0
    queries: int = 0
    features: int = 0
    skipped: int = 0
    missing: int = 0
    names: tuple[str, ...] | None = None
    read_counts: Counter[str] = field(default_factory=Counter)
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

    Only npz files are joined in memory. Rows keep their order; queries need not be contiguous.

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
    """
    stream = source if isinstance(source, LabelledStream) else scan(source, **options)
    stream.log_encoding()
    report = ConversionReport(features=stream.n_features, names=stream.feature_names)
    _check_target(stream.sources, target)
    if names_out is not None and report.names is None:
        raise ParameterError(
            "the features have no names to write", parameter="names_out", fix="Leave it out"
        )
    blocks = _count_blocks(stream.raw_blocks(), report)
    report.rows = save(blocks, target, format=to, **(write or {}))
    if names_out is not None and report.names is not None:
        _write_names(report.names, names_out)
    is_text = _target_format(os.fspath(target), to).name == "letor"
    report.names_lost = is_text and report.names is not None and names_out is None
    return report


def _count_blocks(blocks: Iterator[Dataset], report: ConversionReport) -> Iterator[Dataset]:
    """Yield the blocks that hold rows, and add their counts to the report."""
    last_id = None
    for block in blocks:
        report.skipped += block.read_counts.get("skipped_rows", 0)
        report.missing += block.read_counts.get("missing_values", 0)
        report.read_counts.update(block.read_counts)
        if block.n_rows == 0:
            continue
        qid = block.qid
        report.queries += int((qid[1:] != qid[:-1]).sum())
        # A query may continue from the block before.
        if last_id is None or qid[0] != last_id:
            report.queries += 1
        last_id = qid[-1]
        yield replace(block, lines=None)


def _check_target(sources: tuple[str, ...], target: str | os.PathLike[str]) -> None:
    for name in sources:
        # The same file may have two names.
        if Path(name).exists() and Path(target).exists() and Path(name).samefile(target):
            raise ParameterError(
                f"{name} is read and would be overwritten",
                parameter="target",
                fix="Write to another file",
            )


def _write_names(names: tuple[str, ...], path: str | os.PathLike[str]) -> None:
    for name in names:
        if name.strip() != name or not name or len(name.splitlines()) != 1:
            raise SchemaError(
                f"feature name {name!r} does not fit on a line", fix="Rename the feature"
            )
    with atomic_file(path) as file:
        file.write("".join(f"{name}\n" for name in names).encode())
