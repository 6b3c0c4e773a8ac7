"""Parquet, streamed: row groups end on query boundaries and pages carry checksums."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from rankine.core.atomic import atomic_file
from rankine.core.errors import ParameterError
from rankine.data.options import ReadOptions
from rankine.data.scan import align
from rankine.data.writers.columns import start_batches

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from rankine.data.dataset import Dataset

__all__ = ["write_blocks"]

COMPRESSIONS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")


def write_blocks(
    blocks: Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    layout: str | None = None,
    base: int = 1,
    compression: str = "zstd",
    row_group_rows: int = 65536,
) -> int:
    """Write blocks to a Parquet file that appears only when it is complete.

    Parameters
    ----------
    blocks
        Datasets in row order, of any size.
    path
        The file.
    layout
        "columns" or "sparse"; None takes the storage of the first block.
    base
        First index of the sparse layout; it is noted in the file.
    compression
        "none", "snappy", "gzip", "brotli", "lz4" or "zstd".
    row_group_rows
        A row group ends with the first query that reaches this many rows, so that each query is
        in one row group and the statistics of ``qid`` tell which.

    Returns
    -------
    int
        Rows written.
    """
    if compression not in COMPRESSIONS:
        raise ParameterError(
            f"compression={compression!r} is not known", fix="Choose " + ", ".join(COMPRESSIONS)
        )
    options = ReadOptions(block_rows=row_group_rows, max_query_rows=2**62)
    aligned = align(iter(blocks), options)
    first, maker = start_batches(aligned, layout, base)
    n_rows = 0
    with (
        atomic_file(path) as file,
        pq.ParquetWriter(
            file, maker.schema, compression=compression, write_page_checksum=True
        ) as writer,
    ):
        for block in chain([first], aligned):
            writer.write_batch(maker.make(block), row_group_size=max(block.n_rows, 1))
            n_rows += block.n_rows
    return n_rows
