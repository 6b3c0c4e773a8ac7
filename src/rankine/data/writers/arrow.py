"""Arrow IPC files (Feather version 2), or streams when the name ends in ``.arrows``."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from rankine.core.atomic import atomic_file
from rankine.core.errors import ParameterError
from rankine.data.writers.columns import start_batches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankine.data.dataset import Dataset

__all__ = ["write_blocks"]

COMPRESSIONS = ("none", "lz4", "zstd")


def write_blocks(
    blocks: Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    layout: str | None = None,
    base: int = 1,
    compression: str = "lz4",
) -> int:
    """Write blocks, one record batch each, to a file that appears only when it is complete.

    The parameters are those of the Parquet writer; compression is "none", "lz4" or "zstd".
    Returns the number of rows.
    """
    if compression not in COMPRESSIONS:
        raise ParameterError(
            f"compression={compression!r} is not known", fix="Choose " + ", ".join(COMPRESSIONS)
        )
    chosen = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
    start = pa.ipc.new_stream if os.fspath(path).endswith(".arrows") else pa.ipc.new_file
    stream = (block for block in blocks if block.n_rows)
    first, maker = start_batches(stream, layout, base)
    n_rows = 0
    with atomic_file(path) as file, start(file, maker.schema, options=chosen) as writer:
        for block in chain([first], stream):
            writer.write_batch(maker.make(block))
            n_rows += block.n_rows
    return n_rows
