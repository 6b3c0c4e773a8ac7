"""Rows of any order as files whose queries stand together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from rankine.data.sort import SortReport, sort_file

if TYPE_CHECKING:
    from rankine.data.options import ReadKeywords

__all__ = ["repartition"]


def repartition(path: Any, target: str | Path, **options: Unpack[ReadKeywords]) -> SortReport:
    """Write the rows of files grouped by query, whatever their size, to one Parquet file.

    Sorts on this machine, in memory bounded by ``max_memory`` (default 768 MiB). The result can
    be cut anywhere between its row groups, however the queries lay in the files before.

    Parameters
    ----------
    path
        Files, as for ``rankine.load``.
    target
        The Parquet file to write; its folder is made.
    **options
        Fields of ``ReadOptions``.
    """
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    return sort_file(path, target, **options)
