"""Open data files: ``load`` reads them into memory, ``scan`` streams them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from rankine.core.errors import ParameterError, SchemaError
from rankine.core.stores import read_bytes
from rankine.data.dataset import Dataset, concat, drain
from rankine.data.formats import choose_format, reader_of
from rankine.data.options import ReadKeywords, ReadOptions
from rankine.data.scan import Scan, attach_side_data
from rankine.data.selection import no_rows_error, select_sources
from rankine.data.sources import Source, find_sources


def load(
    path: Any, *, pairs: Sequence[str] | None = None, **options: Unpack[ReadKeywords]
) -> Dataset:
    r"""Read files into memory.

    Parameters
    ----------
    path
        A path, a glob pattern, a folder of tables, ``-`` for standard input, an open binary stream,
        a frame or another table with Arrow's stream interface, or a list of these. Rows keep the
        order of the files; those of a pattern or folder are sorted by their Hive columns
        (``date=2026-11-01/``) and by name.
    pairs
        Read comparisons instead: the columns of winner and loser, such as ``("winner", "loser")``.
        Columns ``winner_x`` and ``loser_x`` are a feature of both sides; ``tie`` and ``weight`` are
        read where they exist.
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
        Bad data, with file, line, column, reason and fix. Rows are never dropped silently.

    Examples
    --------
    >>> import io, rankine
    >>> data = rankine.load(io.BytesIO(b"2 qid:7 1:0.5 # a\n0 qid:7 2:1 # b\n"))
    >>> data.X.shape, data.qid.tolist(), data.docid.tolist()
    ((2, 2), [7, 7], ['a', 'b'])
    """
    if pairs is not None:
        return _load_pairs(path, pairs, **options)
    return load_sources(find_sources(path), ReadOptions.make(**options))


def _load_pairs(path: Any, pairs: Sequence[str], **options: Any) -> Dataset:
    """Read comparisons of two items."""
    from rankine.data.comparisons import read_pairs

    if isinstance(pairs, str) or len(pairs) != 2:
        raise ParameterError(
            f"{pairs!r} are not the names of two columns",
            parameter="pairs",
            fix="Name the columns of winner and loser: winner,loser",
        )
    feature_names = read_names(options.pop("feature_names", None))
    options.pop("progress", None)
    if options:
        raise ParameterError(
            f"cannot be combined with {', '.join(options)}",
            parameter="pairs",
            fix="Comparisons are read from columns: leave these options out",
        )
    return read_pairs(path, pairs[0], pairs[1], feature_names)


def load_sources(sources: Sequence[Source], options: ReadOptions) -> Dataset:
    """Read all rows of some sources into memory."""
    names = read_names(options.feature_names)
    if names is not None and options.n_features is None:
        options = options.with_features(len(names))
    sources, n_excluded = select_sources(sources, options)
    parts: list[Dataset] = []
    read_counts: Counter[str] = Counter()
    if n_excluded:
        read_counts["excluded_files"] = n_excluded
    for source in sources:
        data = read_source(source, options)
        read_counts.update(data.read_counts)
        if data.n_rows:
            parts.append(data)
        elif options.where is None:
            read_counts["empty_files"] += 1
    file_names = tuple(source.name for source in sources)
    if not parts:
        raise no_rows_error(file_names, options)
    del data  # so that each file's rows are released once they are copied
    data = attach_side_data(concat(drain(parts)), options)
    return check_names(replace(data, read_counts=dict(read_counts), sources=file_names), names)


def scan(path: Any, **options: Unpack[ReadKeywords]) -> Scan:
    r"""Stream files as query-aligned blocks with bounded memory.

    ``scan`` takes the options of ``load``, and ``block_rows``. Without ``n_features`` the width is
    measured first: from the schema of a table, or by reading the text once. Each pass re-reads the
    files and checks that they did not change. Queries must be contiguous: one that reappears is a
    QueryOrderError.

    Examples
    --------
    >>> import io, rankine
    >>> stream = rankine.scan(io.BytesIO(b"2 qid:7 1:0.5\n0 qid:7 2:1\n"), n_features=2)
    >>> [block.n_rows for block in stream]
    [2]
    """
    read_options = ReadOptions.make(**options)
    names = read_names(read_options.feature_names)
    if names is not None and read_options.n_features is None:
        read_options = read_options.with_features(len(names))
    return Scan.open(find_sources(path), replace(read_options, feature_names=names))


def read_source(source: Source, options: ReadOptions) -> Dataset:
    """Read all rows of one source."""
    reader = reader_of(choose_format(source, options.format, source.head()))
    data: Dataset = reader.read(source, options)
    return data


def read_names(names: Any) -> tuple[str, ...] | None:
    """Return feature names given as a list, or as a file with one name a line."""
    if names is None:
        return None
    file = None
    if isinstance(names, (str, Path)):
        file = str(names)
        try:
            lines = read_bytes(names).decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(
                f"feature names cannot be read: {error}",
                file=file,
                fix="Write one name a line, UTF-8",
            ) from error
        listed = tuple(line.strip() for line in lines)
    else:
        listed = tuple(str(name) for name in names)
    seen_names: set[str] = set()
    for line, name in enumerate(listed, 1):
        if not name or name in seen_names:
            reason = f"feature name {name!r} appears twice" if name else "empty feature name"
            raise SchemaError(reason, file=file, line=line, fix="Name every feature once")
        seen_names.add(name)
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
