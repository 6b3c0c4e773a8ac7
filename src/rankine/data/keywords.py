"""The keyword arguments of ``load`` and ``scan``, for editors and type checkers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypedDict

__all__ = ["ReadKeywords"]


class ReadKeywords(TypedDict, total=False):
    """Fields of ``ReadOptions``, which documents them; each may be left out."""

    format: str | None
    n_features: int | None
    base: int
    qid_type: str
    missing: str
    on_bad_row: str
    feature_names: Sequence[str] | str | os.PathLike[str] | None
    dtype: Any
    dense: bool | None
    label: str | None
    query: str | None
    docid: str | None
    weight: str | None
    position: str | None
    columns: Sequence[str]
    features: Sequence[str] | None
    group: Any
    single_query: bool
    sample_weight: Any
    require_final_newline: bool
    max_features: int
    max_line_bytes: int
    max_query_rows: int
    max_queries: int
    max_ratio: int
    max_memory: int | None
    block_rows: int
    chunk_bytes: int
    progress: bool
