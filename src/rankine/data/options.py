"""Options of reading files, which every reader takes as one frozen object."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypedDict

import numpy as np

from rankine.core.checks import reject_sets
from rankine.core.errors import ParameterError
from rankine.data.expressions import Expression, parse_condition


class ReadKeywords(TypedDict, total=False):
    """Fields of ``ReadOptions``, which documents them; each may be left out."""

    format: str | None
    n_features: int | None
    base: int
    qid_type: str
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
    categories: Sequence[str]
    numbers: Sequence[str]
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
    where: str | None


_CHOICES = {
    "base": (0, 1),
    "qid_type": ("int", "str"),
    "on_bad_row": ("error", "skip"),
    "dtype": (None, "float32", "float64"),
}

_POSITIVE = (
    "max_features",
    "max_line_bytes",
    "max_query_rows",
    "max_queries",
    "max_ratio",
    "block_rows",
    "chunk_bytes",
)


def available_memory() -> int:
    """Return the bytes of physical memory, or 2^63 - 1 where the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 2**63 - 1


@dataclass(frozen=True)
class ReadOptions:
    """Options of all readers; each reader uses the options of its format.

    Attributes
    ----------
    format
        Name in ``rankine.data.formats``; None chooses by content and suffix.
    n_features
        Width of the matrix; a larger index is an error. None: the largest index found.
    base
        First feature index of text files, 0 or 1. Declared, never guessed.
    qid_type
        "int" (64-bit, exact) or "str".
    on_bad_row
        "error", or "skip": rows that do not follow the grammar are left out and counted.
    feature_names
        Names, one per column, or the path of a file with one name a line.
    dtype
        "float64" or "float32"; decimal numbers are rounded once, to the nearest. None: float64
        for text, and for Parquet and Arrow what the file stores.
    dense
        True or False force the storage. With None, ``load`` returns a dense array if at least half
        of the matrix is stored, and ``scan`` returns CSR blocks of text.
    label, query, docid, weight, position, columns, features
        Column names of Parquet and Arrow; ``columns`` are kept as further columns,
        ``features`` names the feature columns (None: all others). A role given as None has no
        column: no labels (zeros), one query, no docids ...
    categories, numbers
        Further columns to read as text, and as float64 with NaN for a missing value, whatever type
        a file stores.
    group
        Rows per query, in row order, for files without query ids: a sequence, or the path
        (paths) of ``.query`` / ``.group`` files.
    single_query
        All rows of a text file without query ids are one query.
    sample_weight
        Row weights for text files: a sequence, or the path of a ``.weight`` file.
    require_final_newline
        Refuse text whose last line has no newline (it may have been cut).
    max_features, max_line_bytes, max_query_rows, max_queries, max_ratio, max_memory
        Limits: feature indices, bytes of a line, rows of one query in a stream, query ids
        remembered by a stream, decompressed bytes per compressed byte, bytes of the arrays that
        ``load`` returns (None: the machine's memory).
    block_rows
        Rows of a block of ``scan`` (more only if one query is longer).
    chunk_bytes
        Bytes read at a time; never changes a result.
    progress
        Show a bar on stderr for files that take more than two seconds.
    where
        Condition on the columns of tables that rows must meet, such as
        ``"date >= 2026-11-01 and country == 'DE'"``. Hive folders and row groups of Parquet
        without such rows are not read. A comparison with a missing value does not hold.
    """

    format: str | None = None
    n_features: int | None = None
    base: int = 1
    qid_type: str = "int"
    on_bad_row: str = "error"
    feature_names: Sequence[str] | str | os.PathLike[str] | None = None
    dtype: str | None = None
    dense: bool | None = None
    label: str | None = "label"
    query: str | None = "qid"
    docid: str | None = "docid"
    weight: str | None = "weight"
    position: str | None = "position"
    columns: Sequence[str] = ()
    categories: Sequence[str] = ()
    numbers: Sequence[str] = ()
    features: Sequence[str] | None = None
    group: Any = None
    single_query: bool = False
    sample_weight: Any = None
    require_final_newline: bool = False
    max_features: int = 2**31 - 1
    max_line_bytes: int = 16 * 2**20
    max_query_rows: int = 2**24
    max_queries: int = 2**24
    max_ratio: int = 256
    max_memory: int | None = None
    block_rows: int = 65536
    chunk_bytes: int = 2**20
    progress: bool = False
    where: str | None = None

    def __post_init__(self) -> None:
        reject_sets(
            columns=self.columns,
            categories=self.categories,
            numbers=self.numbers,
            features=self.features,
            feature_names=self.feature_names,
            group=self.group,
            sample_weight=self.sample_weight,
        )
        if self.dtype is not None:
            object.__setattr__(self, "dtype", _dtype_name(self.dtype))
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ParameterError(
                    f"{getattr(self, name)!r} is not one of the choices",
                    parameter=name,
                    fix="Choose " + " or ".join(map(repr, allowed)),
                )
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ParameterError(
                    f"{getattr(self, name)} is not positive", parameter=name, fix="Pass 1 or more"
                )
        if not 0 < self.max_features < 2**31:
            raise ParameterError(
                "above 2^31 - 1", parameter="max_features", fix="Hash or renumber the features"
            )
        if self.n_features is not None and not 0 <= self.n_features <= self.max_features:
            raise ParameterError(
                f"{self.n_features} is not between 0 and {self.max_features}",
                parameter="n_features",
                fix="Pass the number of columns of the model or data",
            )
        if self.group is not None and self.single_query:
            raise ParameterError("both group and single_query were given", fix="Pass one of them")
        if self.where is not None:
            parse_where(self.where)
            if self.group is not None or self.sample_weight is not None:
                raise ParameterError(
                    "cannot be combined with group and sample_weight, which count all rows",
                    parameter="where",
                    fix="Store query ids and weights as columns",
                )

    @classmethod
    def make(cls, **options: Any) -> ReadOptions:
        """Make options from keyword arguments; refuse unknown ones."""
        names = {field.name for field in fields(cls)}
        for name in options:
            if name not in names:
                raise ParameterError(
                    f"unknown option {name!r}", fix="Choose among " + ", ".join(sorted(names))
                )
        return cls(**options)

    def with_features(self, n_features: int) -> ReadOptions:
        """Return the same options with a width."""
        return replace(self, n_features=n_features)

    @property
    def condition(self) -> Expression | None:
        """Condition that rows must meet, or None."""
        return None if self.where is None else parse_where(self.where)

    @property
    def has_query_ids(self) -> bool:
        """Whether rows name their queries (no ``group`` and no ``single_query`` was given)."""
        return self.group is None and not self.single_query

    @property
    def memory_limit(self) -> int:
        """Bytes that the returned arrays may take."""
        if self.max_memory is None:
            return available_memory()
        return self.max_memory


@lru_cache(maxsize=64)
def parse_where(text: str) -> Expression:
    """Parse a condition; repeated calls return the same object."""
    return parse_condition(text)


def _dtype_name(dtype: Any) -> str:
    """Return the name of a NumPy type, or the value itself as text if it is none."""
    try:
        return np.dtype(dtype).name
    except (TypeError, ValueError, SyntaxError):  # NumPy parses text such as "," as Python
        return str(dtype)  # refused as not one of the choices
