"""Transform specs: plain data that is stored in a model file.

A spec is a tagged struct: ``msgspec.to_builtins`` writes it, ``msgspec.convert`` reads it strictly.
The specs are defined here and applied in ``rankine.transforms``, so that a model can be read
without compiling anything. A new spec is one more struct in ``TRANSFORM_SPECS``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Union

import msgspec

#: Largest hashed space, as a power of two.
MAX_HASH_BITS = 26
#: Largest number of cuts of a column: its cells and that of missing values are numbered by a byte.
MAX_CUTS = 254
#: Largest numbers of knots and of positions of a calibration.
MAX_KNOTS = 256
MAX_POSITIONS = 1024


class ListRange(
    msgspec.Struct, frozen=True, tag="list_range", tag_field="type", forbid_unknown_fields=True
):
    """Divide each feature by its range (max - min, implicit zeros included) within the list.

    Min-max scaling per list without the subtraction: only differences matter to a ranking, and
    zeros stay zeros. A feature that is constant within the list becomes 0.
    """


class OneHot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A categorical column with one feature for each value in ``values``."""

    column: str
    values: tuple[str, ...]


class Binned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A numeric column with one feature for each of its cells.

    With n cuts there are n + 2 cells: cell k contains cuts[k - 1] <= x < cuts[k], the last one
    missing values.
    """

    column: str
    cuts: tuple[float, ...]

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.cuts) + 2

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, such as ``"1 <= age < 2"``."""
        # As few digits as distinguish the cuts; 17 always do.
        candidates = ([f"{cut:.{n}g}" for cut in self.cuts] for n in (6, 9, 17))
        ends = next(texts for texts in candidates if len(set(texts)) == len(texts))
        if not ends:
            return f"{self.column} given", f"{self.column} missing"
        inner = [f"{a} <= {self.column} < {b}" for a, b in zip(ends[:-1], ends[1:], strict=True)]
        outer = f"{self.column} < {ends[0]}", f"{self.column} >= {ends[-1]}"
        return outer[0], *inner, outer[1], f"{self.column} missing"


class LogColumns(
    msgspec.Struct, frozen=True, tag="log_columns", tag_field="type", forbid_unknown_fields=True
):
    """Features from the raw columns of a log.

    The order of features is: the numeric columns, the values of the one-hot columns, the cells of
    the binned columns, then 2^hash_bits features shared by the hashed columns and the crosses, if
    there are any. A missing value (null or empty text) has no feature, except in a binned column; a
    missing number is 0.

    Attributes
    ----------
    numeric
        Columns whose numbers are features.
    one_hot
        Columns with a feature per listed value; other values have no feature.
    hashed
        Columns whose values are hashed.
    crosses
        Groups of columns whose values are hashed together.
    hash_bits
        The hashed space has 2^hash_bits places.
    ignored
        Other columns of the log (query, label, position ...), which rows may have and are not read.
    binned
        Numeric columns with a feature per cell.
    tables
        Whether the columns are encoded for tables (``Bins``): numbers as they are and NaN for a
        missing one; a one-hot column is the number of its value, infinite for other values.
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
        """Check the spec, which may come from a damaged or hostile file."""
        if self.tables and (self.hashed or self.crosses or self.binned):
            raise ValueError("tables can have numeric and one-hot columns only")
        if not 1 <= self.hash_bits <= MAX_HASH_BITS:
            raise ValueError(f"hash_bits {self.hash_bits} is not between 1 and {MAX_HASH_BITS}")
        if any(len(set(cross)) < 2 for cross in self.crosses):
            raise ValueError("a cross needs two different columns")
        for field in self.binned:
            check_cuts(field.cuts)
        encoded = [*self.numeric, *self._listed_columns, *self.hashed]
        for position, name in enumerate(encoded):
            if name in encoded[:position]:
                raise ValueError(f"column {name!r} has two encodings")
        if len(set(self.crosses)) != len(self.crosses):
            raise ValueError("a cross is given twice")

    @property
    def _listed_columns(self) -> list[str]:
        names = [field.column for field in self.one_hot]
        return names + [field.column for field in self.binned]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read, without repetitions."""
        crossed = [name for cross in self.crosses for name in cross]
        return tuple(dict.fromkeys([*self.numeric, *self._listed_columns, *self.hashed, *crossed]))

    @property
    def read_columns(self) -> LogColumns:
        """The spec without ignored columns; it is equal for equal features."""
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
        """Names of all features in order, without the hashed ones."""
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
    """Raise ValueError unless the cuts of a column are finite, increasing and few enough."""
    if len(cuts) > MAX_CUTS:
        raise ValueError(f"a column has {len(cuts)} cuts, more than {MAX_CUTS}")
    if not all(math.isfinite(cut) for cut in cuts):
        raise ValueError("a cut is not a finite number")
    if any(a >= b for a, b in zip(cuts[:-1], cuts[1:], strict=True)):
        raise ValueError("the cuts of a column do not increase")


class Bins(msgspec.Struct, frozen=True, tag="bins", tag_field="type", forbid_unknown_fields=True):
    """Cells of columns for tables: every value of a column is in exactly one of its cells.

    A column with n cuts has n + 2 cells. For an ordered column, cell k contains
    cuts[k - 1] <= x < cuts[k], for k = 0..n. For an unordered column, cell k contains x = cuts[k],
    for k = 0..n - 1, and cell n every other value. The last cell contains missing values (NaN). The
    cells of all columns are numbered one column after the other.

    Attributes
    ----------
    cuts
        Increasing numbers for each column; for unordered columns the values with a cell.
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
        """Check the spec, which may come from a damaged or hostile file."""
        for cuts in self.cuts:
            check_cuts(cuts)
        # Sorted and in range, so that loops over columns need no further checks.
        for columns in (self.unordered, self.linear):
            if list(columns) != sorted({j for j in columns if 0 <= j < len(self.cuts)}):
                raise ValueError("unordered and linear columns must be listed once, in order")
        if any(self.cuts[j] for j in self.linear):
            raise ValueError("a linear column must not have cuts")
        if self.names is not None and len(set(self.names)) != len(self.cuts):
            raise ValueError("column names must be distinct and complete")

    @property
    def n_cells(self) -> tuple[int, ...]:
        """Number of cells of each column; 0 for linear ones."""
        linear = set(self.linear)
        return tuple(0 if j in linear else len(cuts) + 2 for j, cuts in enumerate(self.cuts))


class GridAxis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One axis of grids: the cells of a column, merged into fewer intervals.

    ``cells[k]`` is the interval of the column's cell k; the last interval contains missing values.
    """

    column: int
    cells: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of intervals."""
        return max(self.cells) + 1


class Grids(msgspec.Struct, frozen=True, tag="grids", tag_field="type", forbid_unknown_fields=True):
    """Tables over pairs of binned columns, numbered after the cells of ``Bins``.

    The cell of a pair is ``first interval x size of the second axis + second interval``.

    Attributes
    ----------
    axes
        The columns that occur in pairs.
    pairs
        Two positions among ``axes`` for each grid, in order.
    """

    axes: tuple[GridAxis, ...]
    pairs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        """Check the spec, which may come from a damaged or hostile file."""
        for axis in self.axes:
            intervals = set(axis.cells)
            consecutive = intervals == set(range(len(intervals)))
            if axis.column < 0 or len(intervals) > 256 or not consecutive:
                raise ValueError("the intervals of a grid's axis must be numbered from 0")
        if any(not 0 <= a < b < len(self.axes) for a, b in self.pairs):
            raise ValueError("a pair needs two different axes in order")

    @property
    def n_cells(self) -> tuple[int, ...]:
        """Number of cells of each grid."""
        return tuple(self.axes[a].size * self.axes[b].size for a, b in self.pairs)


class FusionRules(NamedTuple):
    """How an engine normalises the scores of a retriever.

    Attributes
    ----------
    normalizations
        The normalisations that the engine has.
    floor
        Normalised score of the lowest document in min_max, and of every document that is not above
        the mean in z_score.
    equal
        Score of all documents if their scores are equal; None leaves the scores unchanged.
    tolerance
        Scores whose range is below this count as equal.
    absent
        How minimum, maximum and mean treat a document that the retriever did not return: ``"out"``
        leaves it out; ``"zero"`` gives it the score 0; ``"index"`` leaves it out too, but includes
        the score 0, which all other documents of the index have.
    """

    normalizations: tuple[str, ...]
    floor: float
    equal: float | None
    tolerance: float
    absent: str


#: Engine -> its rules.
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

    A missing feature of a row (not stored, or NaN in an array) means that the retriever did not
    return the document; it adds nothing to the score. See ``rankine.kernels.run_scores``.
    """

    normalization: Literal["min_max", "l2", "z_score", "reciprocal_rank"] = "min_max"
    engine: Literal["elasticsearch", "opensearch", "solr", "vespa"] = "opensearch"
    rank_constant: float = 60.0

    def __post_init__(self) -> None:
        """Check that the engine has the normalisation."""
        # A damaged or hostile file may combine values that are valid one by one.
        if self.normalization not in FUSION_RULES[self.engine].normalizations:
            raise ValueError(f"{self.engine} has no normalisation {self.normalization}")
        if not self.rank_constant >= 0:
            raise ValueError(f"rank_constant {self.rank_constant} is negative")


class OutcomeCalibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Probability of an outcome, from a score s of a list and a displayed position k from 1.

    P = examination[k] / (1 + e^-f(s - m)), m the mean score of the list. f is linear between knots
    and beyond them, and strictly increasing.

    Attributes
    ----------
    outcome
        Column or formula of the outcome.
    position
        Column of the displayed positions, if the probability depends on them.
    scores, logits
        The knots of f, both strictly increasing.
    tails
        Slopes of f below the first knot and above the last one.
    examination
        Examination probability by position, relative to the largest; the last is for all later
        positions. Empty if the probability does not depend on the position.
    n_lists, n_rows, n_outcomes
        Size of the data it was fitted on.
    """

    outcome: str
    scores: tuple[float, ...]
    logits: tuple[float, ...]
    tails: tuple[float, float]
    position: str | None = None
    examination: tuple[float, ...] = ()
    n_lists: int = 0
    n_rows: int = 0
    n_outcomes: int = 0

    def __post_init__(self) -> None:
        """Check the knots and the examination probabilities."""
        numbers = (*self.scores, *self.logits, *self.tails, *self.examination)
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a number of the calibration is not finite")
        if not 2 <= len(self.scores) == len(self.logits) <= MAX_KNOTS:
            raise ValueError(f"the calibration needs 2 to {MAX_KNOTS} knots")
        for values in (self.scores, self.logits):
            if not all(a < b for a, b in itertools.pairwise(values)):
                raise ValueError("the knots of the calibration do not increase")
        if not min(self.tails) > 0:
            raise ValueError("the calibration does not increase outside its knots")
        if (self.position is None) != (not self.examination):
            raise ValueError("the calibration has a position without examination probabilities")
        if len(self.examination) > MAX_POSITIONS or not all(0 < x <= 1 for x in self.examination):
            raise ValueError("an examination probability is not in (0, 1]")


class MissingValues(
    msgspec.Struct, frozen=True, tag="missing_values", tag_field="type", forbid_unknown_fields=True
):
    """How a missing value (NaN) of a feature is replaced.

    Attributes
    ----------
    rule
        By 0 ("zero"), the mean of the training rows ("mean"), the smallest value within the list
        ("query_min"; 0 if all are missing), or 0 and a constant added to the score ("indicator").
    columns, values
        For "mean": features and their means, where these are not 0. For "indicator": features and
        the constant that a missing value adds to the score.
    """

    rule: Literal["zero", "mean", "query_min", "indicator"]
    columns: tuple[int, ...] = ()
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the spec, which may come from a damaged or hostile file."""
        if list(self.columns) != sorted({j for j in self.columns if j >= 0}):
            raise ValueError("columns of missing values must be listed once, in order")
        if len(self.values) != len(self.columns) or not all(map(math.isfinite, self.values)):
            raise ValueError("every column of missing values needs a finite number")
        if self.columns and self.rule in ("zero", "query_min"):
            raise ValueError(f"the rule {self.rule!r} must not have values")


class HistoryFeature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A feature that is computed from the rows of earlier lists with the same key.

    Exactly one of ``count``, ``rate``, ``mean``, ``last`` and ``age`` is given. Durations are
    numbers of seconds or texts such as ``"7d"``.

    Attributes
    ----------
    by
        Columns of the key.
    count, rate, last
        Formula over columns: its sum, its sum per row, and the hours since it was positive.
    mean, weight
        Formula whose mean is computed, and the formula of its weights (default: 1).
    age
        Whether the feature is the hours since the key was first shown.
    over
        What ``rate`` divides by: a formula, ``"rows"`` or ``"examination"``.
    prior
        Number of pseudo-rows at the overall rate.
    half_life
        Duration after which a row counts half; rows never fade without it.
    window, buckets
        Instead: duration in which a row counts, and number of steps in which it moves.
    log
        Whether a value x becomes sign(x) log(1 + |x|).
    """

    by: tuple[str, ...]
    count: str | None = None
    rate: str | None = None
    mean: str | None = None
    last: str | None = None
    age: bool = False
    over: str = "rows"
    weight: str | None = None
    prior: float = 20.0
    half_life: str | float | None = None
    window: str | float | None = None
    buckets: int = 8
    log: bool = False

    @property
    def kind(self) -> str:
        """Name of the kind; a ValueError unless exactly one is given."""
        kinds = [name for name in HISTORY_KINDS if getattr(self, name) not in (None, False)]
        if len(kinds) != 1:
            raise ValueError(f"exactly one of {', '.join(HISTORY_KINDS)} is needed")
        return kinds[0]


#: Kinds of history features.
HISTORY_KINDS = ("count", "rate", "mean", "last", "age")
#: Maximum number of history features of a model.
MAX_HISTORY = 256


class History(
    msgspec.Struct, frozen=True, tag="history", tag_field="type", forbid_unknown_fields=True
):
    """How history features, which are numeric columns of a log, are computed from earlier rows.

    Attributes
    ----------
    names, features
        Names of the columns, and how each is computed.
    query, time
        Columns of the list and the time of a row.
    time_unit
        Unit of times that are numbers: "s", "ms" or "us".
    outcome_time
        Column of the time of a row's outcomes, or None.
    position
        Column of displayed positions, or None.
    delay, refresh
        Durations: how long outcomes take to arrive; how often they become visible (0: at once).
    forget
        Duration after which ``last`` and ``age`` forget a key.
    propensity
        Examination probability by position, for ``over = "examination"``.
    """

    names: tuple[str, ...]
    features: tuple[HistoryFeature, ...]
    query: str
    time: str
    time_unit: Literal["s", "ms", "us"] = "s"
    outcome_time: str | None = None
    position: str | None = None
    delay: str | float = 0.0
    refresh: str | float = 0.0
    forget: str | float = "365d"
    propensity: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the spec, which may come from a damaged or hostile file."""
        if not 0 < len(self.names) <= MAX_HISTORY or len(self.names) != len(self.features):
            raise ValueError(f"a model has 1 to {MAX_HISTORY} history features, each with a name")
        if len(set(self.names)) != len(self.names):
            raise ValueError("two history features have the same name")
        if not all(math.isfinite(x) and x > 0 for x in self.propensity):
            raise ValueError("propensities of history features are not positive")

    def first_difference(self, other: History) -> str | None:
        """Return the name of the first feature that ``other`` lacks or computes differently."""
        settings = ("delay", "refresh", "forget", "time_unit", "propensity")
        same = all(getattr(self, name) == getattr(other, name) for name in settings)
        others = dict(zip(other.names, other.features, strict=True))
        for name, feature in zip(self.names, self.features, strict=True):
            if not same or others.get(name) != feature:
                return name
        return None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns of all keys: what a row needs so that its features can be computed."""
        return tuple(dict.fromkeys(name for feature in self.features for name in feature.by))


#: Every transform that a model file can contain.
TRANSFORM_SPECS: tuple[type[msgspec.Struct], ...] = (
    ListRange,
    MissingValues,
    LogColumns,
    Bins,
    Grids,
    RunScores,
    History,
)


def encode_transforms(transforms: Sequence[msgspec.Struct]) -> list[Any]:
    """Convert transform specs to JSON types."""
    encoded = []
    for spec in transforms:
        fields = msgspec.to_builtins(spec)
        # Model files without binned columns never had this entry. It stays away, so that equal
        # models have equal files and digests.
        if not fields.get("binned", True):
            del fields["binned"]
        encoded.append(fields)
    return encoded


def decode_transforms(data: Any) -> tuple[msgspec.Struct, ...]:
    """Create transform specs from JSON types; anything else is a ``msgspec.ValidationError``."""
    any_spec = Union[TRANSFORM_SPECS]  # type: ignore[valid-type]  # noqa: UP007 - a runtime tuple
    return tuple(msgspec.convert(data, type=list[any_spec], strict=True))
