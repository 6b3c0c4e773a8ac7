"""Specs that travel inside a model file, as data.

A transform spec is a tagged struct: ``msgspec.to_builtins`` writes it, ``msgspec.convert`` reads
it back strictly. What a spec *does* lives in ``rankine.transforms``; what it *says* lives here, so
that a model can be read without compiling anything. A new spec is one more struct in
``TRANSFORM_SPECS``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Union

import msgspec

#: Largest hashed space, as a power of two.
MAX_HASH_BITS = 26
#: Most cuts of a column: its cells, with the one for missing values, are numbered by one byte.
MAX_CUTS = 254


class ListRange(
    msgspec.Struct, frozen=True, tag="list_range", tag_field="type", forbid_unknown_fields=True
):
    """Divide each feature by its range (max - min, implicit zeros included) within the list.

    Min-max scaling per list without the subtraction: only differences matter to a ranking, and
    zeros stay zeros. A feature that is constant within the list becomes 0.
    """


class OneHot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A categorical column with a feature for each of its known values."""

    column: str
    values: tuple[str, ...]


class Binned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of numbers with a feature for each of its cells.

    With n cuts there are n + 2 cells: cell k holds cuts[k - 1] <= x < cuts[k], the last one missing
    values.
    """

    column: str
    cuts: tuple[float, ...]

    @property
    def n_cells(self) -> int:
        """Cells of the column."""
        return len(self.cuts) + 2

    @property
    def names(self) -> tuple[str, ...]:
        """What each cell holds, in words."""
        digits = (6, 9, 17)
        shown = ([f"{cut:.{n}g}" for cut in self.cuts] for n in digits)
        ends = next(texts for texts in shown if len(set(texts)) == len(texts))
        if not ends:
            return f"{self.column} given", f"{self.column} missing"
        inner = [f"{a} <= {self.column} < {b}" for a, b in zip(ends[:-1], ends[1:], strict=True)]
        outer = f"{self.column} < {ends[0]}", f"{self.column} >= {ends[-1]}"
        return outer[0], *inner, outer[1], f"{self.column} missing"


class LogColumns(
    msgspec.Struct, frozen=True, tag="log_columns", tag_field="type", forbid_unknown_fields=True
):
    """Raw columns of a log as features.

    Features stand in this order: the numeric columns, the values of the one-hot columns, the cells
    of the binned columns, then 2^hash_bits places shared by the hashed columns and the crosses
    (absent when there are none). A missing value (null, or empty text) has no feature, but where
    the column is binned; a missing number is 0.

    Attributes
    ----------
    numeric
        Columns whose numbers are used as they stand.
    one_hot
        Columns with known values; other values have no feature.
    hashed
        Columns whose values are hashed.
    crosses
        Groups of columns whose values are hashed together.
    hash_bits
        The hashed space has 2^hash_bits places.
    ignored
        Further columns of the log (query, label, position ...), allowed in a row and not read.
    binned
        Columns of numbers by cells.
    tables
        Whether rows are columns of tables (``Bins``): numbers as they stand, NaN where one is
        missing, and one-hot columns as the number of their value, infinite for other values.
    """

    numeric: tuple[str, ...] = ()
    one_hot: tuple[OneHot, ...] = ()
    hashed: tuple[str, ...] = ()
    crosses: tuple[tuple[str, ...], ...] = ()
    hash_bits: int = 20
    ignored: tuple[str, ...] = ()
    binned: tuple[Binned, ...] = ()
    tables: bool = False

    def __post_init__(self) -> None:
        """Refuse a spec that cannot have been written by rankine."""
        if self.tables and (self.hashed or self.crosses or self.binned):
            raise ValueError("tables are over numeric and one-hot columns")
        if not 1 <= self.hash_bits <= MAX_HASH_BITS:
            raise ValueError(f"hash_bits {self.hash_bits} is not between 1 and {MAX_HASH_BITS}")
        if any(len(set(cross)) < 2 for cross in self.crosses):
            raise ValueError("a cross needs two different columns")
        for field in self.binned:
            check_cuts(field.cuts)
        named = [*self.numeric, *self._fields, *self.hashed]
        twice = [name for k, name in enumerate(named) if name in named[:k]]
        if twice or len(set(self.crosses)) != len(self.crosses):
            what = f"column {twice[0]!r} has two encodings" if twice else "a cross is given twice"
            raise ValueError(what)

    @property
    def _fields(self) -> list[str]:
        return [*(one.column for one in self.one_hot), *(one.column for one in self.binned)]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read, each once."""
        crossed = [name for cross in self.crosses for name in cross]
        return tuple(dict.fromkeys([*self.numeric, *self._fields, *self.hashed, *crossed]))

    @property
    def read_columns(self) -> LogColumns:
        """The spec without the columns that it does not read: equal for equal features."""
        return msgspec.structs.replace(self, ignored=())

    @property
    def bin_start(self) -> int:
        """Index of the first cell of a binned column."""
        if self.tables:
            return len(self.columns)
        return len(self.numeric) + sum(len(field.values) for field in self.one_hot)

    @property
    def hash_start(self) -> int:
        """Index of the first hashed feature."""
        return self.bin_start + sum(field.n_cells for field in self.binned)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all features but the hashed ones, in order."""
        if self.tables:
            return self.columns
        values = (f"{f.column}={value}" for f in self.one_hot for value in f.values)
        cells = (name for field in self.binned for name in field.names)
        return (*self.numeric, *values, *cells)

    @property
    def n_features(self) -> int:
        """Size of the feature space."""
        hashed = bool(self.hashed or self.crosses)
        return self.hash_start + (1 << self.hash_bits if hashed else 0)


def check_cuts(cuts: Sequence[float]) -> None:
    """Refuse cuts of a column that cannot have been written by rankine."""
    if len(cuts) > MAX_CUTS:
        raise ValueError(f"a column has {len(cuts)} cuts, and cells count to 256")
    if not all(math.isfinite(cut) for cut in cuts):
        raise ValueError("a cut is not a finite number")
    if any(a >= b for a, b in zip(cuts[:-1], cuts[1:], strict=True)):
        raise ValueError("the cuts of a column do not increase")


class Bins(msgspec.Struct, frozen=True, tag="bins", tag_field="type", forbid_unknown_fields=True):
    """Columns as cells of tables: every column of a row falls into exactly one of its cells.

    A column with n cuts has n + 2 cells. In order of size: cell k holds cuts[k - 1] <= x < cuts[k],
    for k = 0..n. Unordered: cell k holds x = cuts[k], for k = 0..n - 1, and cell n every other
    value. The last cell holds missing values (NaN) in both. Cells of all columns follow each other.

    Attributes
    ----------
    cuts
        Increasing numbers for each column of a row; for unordered columns the known values.
    unordered
        Columns whose numbers name categories.
    linear
        Columns without cells: their values are features themselves, after all cells and grids.
    names
        Names of the columns of a row, or None.
    """

    cuts: tuple[tuple[float, ...], ...]
    unordered: tuple[int, ...] = ()
    linear: tuple[int, ...] = ()
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse a spec that cannot have been written by rankine."""
        for cuts in self.cuts:
            check_cuts(cuts)
        for columns in (self.unordered, self.linear):
            if list(columns) != sorted({j for j in columns if 0 <= j < len(self.cuts)}):
                raise ValueError("unordered and linear columns are listed once, in order")
        if any(self.cuts[j] for j in self.linear):
            raise ValueError("a linear column has no cuts")
        if self.names is not None and len(set(self.names)) != len(self.cuts):
            raise ValueError("every column has a name of its own, or none has one")

    @property
    def n_cells(self) -> tuple[int, ...]:
        """Cells of each column; 0 for linear ones."""
        linear = set(self.linear)
        return tuple(0 if j in linear else len(cuts) + 2 for j, cuts in enumerate(self.cuts))


class GridAxis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One side of grids: the cells of a column, joined into fewer; the last holds missing values.

    ``cells[k]`` is the place on this side of the column's cell k.
    """

    column: int
    cells: tuple[int, ...]

    @property
    def size(self) -> int:
        """Places on this side."""
        return max(self.cells) + 1


class Grids(msgspec.Struct, frozen=True, tag="grids", tag_field="type", forbid_unknown_fields=True):
    """Tables over pairs of binned columns; they follow the cells of ``Bins``.

    The cell of a pair is ``first place x size of the second side + second place``.

    Attributes
    ----------
    axes
        Columns that occur in a pair, by column.
    pairs
        Two positions among ``axes`` for each grid, in order.
    """

    axes: tuple[GridAxis, ...]
    pairs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        """Refuse a spec that cannot have been written by rankine."""
        for axis in self.axes:
            places = set(axis.cells)
            if axis.column < 0 or len(places) > 256 or places != set(range(len(places))):
                raise ValueError("the places on a side of a grid do not count from 0")
        if any(not 0 <= a < b < len(self.axes) for a, b in self.pairs):
            raise ValueError("a pair needs two different sides in order")

    @property
    def n_cells(self) -> tuple[int, ...]:
        """Cells of each grid."""
        return tuple(self.axes[a].size * self.axes[b].size for a, b in self.pairs)


class FusionRules(NamedTuple):
    """How an engine normalises the scores of a retriever.

    Attributes
    ----------
    normalizations
        What the engine can do.
    floor
        What stands in place of 0 for the lowest score (of every score below the mean, in z_score).
    equal
        What scores become that are all equal; None leaves them as they are.
    tolerance
        Scores whose range is below this count as equal.
    absent
        A document that the retriever did not return: ``"out"`` of the measures, a score of
        ``"zero"``, or out of them where the rest of the ``"index"`` scores 0.
    """

    normalizations: tuple[str, ...]
    floor: float
    equal: float | None
    tolerance: float
    absent: str


#: The rules by the name of the engine.
FUSION_RULES = {
    "elasticsearch": FusionRules(("min_max", "l2", "reciprocal_rank"), 0.0, None, 1e-6, "out"),
    "opensearch": FusionRules(
        ("min_max", "l2", "z_score", "reciprocal_rank"), 0.001, 1.0, 0.0, "out"
    ),
    "solr": FusionRules(("min_max",), 0.0, 0.0, 0.0, "index"),
    "vespa": FusionRules(("min_max", "reciprocal_rank"), 0.0, 0.5, 0.0, "zero"),
}


class RunScores(
    msgspec.Struct, frozen=True, tag="run_scores", tag_field="type", forbid_unknown_fields=True
):
    """Each feature is the score of a retriever, normalised within the list as an engine does it.

    A feature that a row lacks (not stored, or NaN in an array) is a document that the retriever
    did not return; it adds nothing to the score. See ``rankine.kernels.run_scores``.
    """

    normalization: Literal["min_max", "l2", "z_score", "reciprocal_rank"] = "min_max"
    engine: Literal["elasticsearch", "opensearch", "solr", "vespa"] = "opensearch"
    rank_constant: float = 60.0

    def __post_init__(self) -> None:
        """Refuse what the engine does not have."""
        if self.normalization not in FUSION_RULES[self.engine].normalizations:
            raise ValueError(f"{self.engine} has no normalisation {self.normalization}")
        if not self.rank_constant >= 0:
            raise ValueError(f"rank_constant {self.rank_constant} is negative")


class MissingValues(
    msgspec.Struct, frozen=True, tag="missing_values", tag_field="type", forbid_unknown_fields=True
):
    """What stands for a missing value (NaN) of a feature.

    Attributes
    ----------
    rule
        "zero", the "mean" of the training rows, the smallest value within the list ("query_min"; 0
        where all are missing), or 0 and something added to the score ("indicator").
    columns, values
        "mean": features and their means, where these are not 0. "indicator": features, and what a
        missing value of each adds to the score.
    """

    rule: Literal["zero", "mean", "query_min", "indicator"]
    columns: tuple[int, ...] = ()
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a spec that cannot have been written by rankine."""
        if list(self.columns) != sorted({j for j in self.columns if j >= 0}):
            raise ValueError("columns of missing values are listed once, in order")
        if len(self.values) != len(self.columns) or not all(map(math.isfinite, self.values)):
            raise ValueError("every column of missing values has a finite number")
        if self.columns and self.rule in ("zero", "query_min"):
            raise ValueError(f"the rule {self.rule!r} has no numbers")


#: Every transform that a model file may hold.
TRANSFORM_SPECS: tuple[type[msgspec.Struct], ...] = (
    ListRange,
    MissingValues,
    LogColumns,
    Bins,
    Grids,
    RunScores,
)


def encode_transforms(transforms: Sequence[msgspec.Struct]) -> list[Any]:
    """Transform specs as plain data, without binned columns where there are none, as in 0.1."""
    plain = [msgspec.to_builtins(spec) for spec in transforms]
    return [{key: v for key, v in spec.items() if key != "binned" or v} for spec in plain]


def decode_transforms(data: Any) -> tuple[msgspec.Struct, ...]:
    """Transform specs from plain data; ``msgspec.ValidationError`` for anything else."""
    kinds = Union[TRANSFORM_SPECS]  # type: ignore[valid-type]  # noqa: UP007 - a runtime tuple
    return tuple(msgspec.convert(data, type=list[kinds], strict=True))
