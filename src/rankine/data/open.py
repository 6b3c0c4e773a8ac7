"""The doors of the data floor: ``load`` into memory, ``scan`` as a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from rankine.core.errors import EmptyDataError, SchemaError
from rankine.data.dataset import Dataset, concat
from rankine.data.formats import choose_format, reader_of
from rankine.data.options import ReadKeywords, ReadOptions
from rankine.data.scan import Scan, apply_side_data
from rankine.data.sources import Source, find_sources


def load(path: Any, **options: Unpack[ReadKeywords]) -> Dataset:
    r"""Read files into memory.

    Parameters
    ----------
    path
        A path, a glob pattern, ``-`` for standard input, an open binary stream, or a list of
        these. Rows keep the order of the files; the matches of a pattern are sorted by name.
    **options
        Fields of ``rankine.data.options.ReadOptions``. The usual ones: ``n_features`` (width of
        the matrix), ``base`` (first feature index of text, 1 or 0), ``qid_type`` ("int" or
        "str"), ``on_bad_row`` ("error", or "skip" and count), ``feature_names`` (list, or file
        with one name a line), ``dtype`` ("float64" or "float32"), ``group`` (rows per query, or
        the path of a ``.query`` file), ``format``, ``progress``. ``NULL``, ``NaN`` and nulls are
        missing values: NaN in ``X``, counted in ``read_counts``.

    Returns
    -------
    Dataset
        ``X`` is a dense array when at least half of it is stored in the file, else CSR
        (``dense=`` forces one); everything is in row order.

    Raises
    ------
    DataError
        One of its kinds, with file, line, column, reason and fix; never a part of the rows.

    Examples
    --------
    >>> import io, rankine
    >>> data = rankine.load(io.BytesIO(b"2 qid:7 1:0.5 # a\n0 qid:7 2:1 # b\n"))
    >>> data.X.shape, data.qid.tolist(), data.docid.tolist()
    ((2, 2), [7, 7], ['a', 'b'])
    """
    return load_sources(find_sources(path), ReadOptions.make(**options))


def load_sources(sources: Sequence[Source], options: ReadOptions) -> Dataset:
    """All rows of some sources."""
    names = read_names(options.feature_names)
    if names is not None and options.n_features is None:
        options = options.with_features(len(names))
    parts: list[Dataset] = []
    read_counts: Counter[str] = Counter()
    for source in sources:
        part = read_source(source, options)
        read_counts.update(part.read_counts)
        if part.n_rows:
            parts.append(part)
        else:
            read_counts["empty_files"] += 1
    if not parts:
        raise EmptyDataError(
            "no rows in " + _listed(sources),
            fix="Check the path; comments and blank lines are no rows",
        )
    data = apply_side_data(concat(parts), options)
    return check_names(
        replace(
            data, read_counts=dict(read_counts), sources=tuple(source.name for source in sources)
        ),
        names,
    )


def scan(path: Any, **options: Unpack[ReadKeywords]) -> Scan:
    r"""Stream files as query-aligned blocks with bounded memory.

    The same options as ``load``, and ``block_rows``. Each pass re-reads the files and checks that
    they did not change. Queries must be contiguous: one that reappears is a QueryOrderError.

    Examples
    --------
    >>> import io, rankine
    >>> stream = rankine.scan(io.BytesIO(b"2 qid:7 1:0.5\n0 qid:7 2:1\n"), n_features=2)
    >>> [block.n_rows for block in stream]
    [2]
    """
    reading = ReadOptions.make(**options)
    names = read_names(reading.feature_names)
    if names is not None and reading.n_features is None:
        reading = reading.with_features(len(names))
    return Scan(find_sources(path), replace(reading, feature_names=names))


def read_source(source: Source, options: ReadOptions) -> Dataset:
    """All rows of one source."""
    reader = reader_of(choose_format(source, options.format, source.head()))
    data: Dataset = reader.read(source, options)
    return data


def read_names(names: Any) -> tuple[str, ...] | None:
    """Feature names given as a list, or as a file with one name a line."""
    if names is None:
        return None
    if isinstance(names, (str, Path)):
        file = str(names)
        try:
            lines = Path(names).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(
                f"feature names cannot be read: {error}",
                file=file,
                fix="Write one name a line, UTF-8",
            ) from error
        listed = tuple(line.strip() for line in lines)
    else:
        file = None
        listed = tuple(str(name) for name in names)
    seen: set[str] = set()
    for line, name in enumerate(listed, 1):
        if not name or name in seen:
            reason = f"feature name {name!r} appears twice" if name else "empty feature name"
            raise SchemaError(reason, file=file, line=line, fix="Name every feature once")
        seen.add(name)
    return listed


def check_names(data: Dataset, names: tuple[str, ...] | None) -> Dataset:
    """Attach feature names, one per column."""
    if names is None:
        return data
    if len(names) != data.n_features:
        raise SchemaError(
            f"{len(names)} feature names for {data.n_features} features",
            fix="Name every feature once, or pass n_features",
        )
    return replace(data, feature_names=names)


def _listed(sources: Sequence[Source]) -> str:
    shown = ", ".join(source.name for source in sources[:3])
    return shown + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")
