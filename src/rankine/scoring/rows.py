"""Read rows from callers: compressed arrays, dictionaries, columns and data frames."""

from __future__ import annotations

import struct
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import fsum, inf, isfinite, isnan, nan
from operator import itemgetter, mul
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.checks import check_group_sum
from rankine.core.errors import FeatureMismatchError, SchemaError
from rankine.core.safe_text import printable
from rankine.data.compressed import check_sparse
from rankine.kernels.rows import compression_fault
from rankine.model import LinearModel
from rankine.model.explain import name_positions, unknown_feature
from rankine.scoring.kernels import exact_scores
from rankine.transforms.log_columns import LogEncoder

#: Types of real numbers.
NUMBERS = (int, float, np.integer, np.floating, np.bool_)


class CsrArrays(NamedTuple):
    """The three arrays of compressed sparse rows."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: NDArray[Any]


class InputIssues:
    """Counts of unknown and missing names in scored rows. Threads may share one object.

    Attributes
    ----------
    unknown_features
        Number of named features that the model does not have, counted as zero.
    unknown_columns
        Raw columns that the model does not have, with the number of rows that contain them.
    missing_columns
        Raw columns that the model reads, with the number of rows without them. A null value is not
        counted as missing.
    """

    def __init__(self) -> None:
        self.unknown_features = 0
        self.unknown_columns: Counter[str] = Counter()
        self.missing_columns: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(
        self,
        features: int = 0,
        unknown: Mapping[str, int] | None = None,
        missing: Mapping[str, int] | None = None,
    ) -> None:
        """Add to the counts."""
        with self._lock:
            self.unknown_features += features
            self.unknown_columns.update(unknown or {})
            self.missing_columns.update(missing or {})


def as_carray(array: NDArray[Any]) -> NDArray[Any]:
    """Return a C-ordered writable array, so that every kernel is compiled for one layout only."""
    if array.flags.carray and array.dtype.isnative:
        return array
    return np.array(array, order="C", dtype=array.dtype.newbyteorder("="))


def count_rows(rows: CsrArrays | NDArray[Any]) -> int:
    """Return the number of rows of a matrix or of compressed rows."""
    return len(rows) if isinstance(rows, np.ndarray) else len(rows.indptr) - 1


def csr_parts(rows: Any, n_features: int) -> CsrArrays:
    """Return compressed rows as arrays of types that the kernels accept; scipy is not needed."""
    if getattr(rows, "format", "csr") != "csr":
        rows = check_sparse(rows).tocsr()
    shape = getattr(rows, "shape", None)
    if shape is not None and (len(shape) != 2 or shape[1] != n_features):
        raise FeatureMismatchError(
            f"rows have shape {tuple(shape)}, and the model has {n_features} features",
            fix="Read the data with the model's n_features",
        )
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    # The fast path, which scipy's arrays nearly always take.
    try:
        if (
            indptr.dtype is indices.dtype
            and indices.dtype.char in "il"
            and data.dtype.char in "df"
            and indptr.flags.carray
            and indices.flags.carray
            and data.flags.carray
            and data.dtype.isnative
            and indices.dtype.isnative
            and indptr.ndim == indices.ndim == data.ndim == 1
            and len(indptr)
        ):
            return CsrArrays(indptr, indices, data)
    except AttributeError:
        pass
    if any(np.ndim(part) != 1 for part in (indptr, indices, data)):
        raise misfit(n_features, "offsets, indices or values are no list")
    if type(indptr) is not np.ndarray or indptr.dtype.char not in "il" or indptr.size == 0:
        indptr = _integers(indptr, "indptr")
    if type(indices) is not np.ndarray or indices.dtype.char not in "il":
        indices = _integers(indices, "indices")
    if type(data) is not np.ndarray or data.dtype.char not in "df":
        data = real_numbers(np.asarray(data))
    if indptr.dtype != indices.dtype:
        indptr, indices = indptr.astype(np.int64), indices.astype(np.int64)
    return CsrArrays(as_carray(indptr), as_carray(indices), as_carray(data))


def checked_csr(rows: CsrArrays, n_columns: int) -> CsrArrays:
    """Return compressed rows with checked offsets and indices, in order, each index once a row.

    Values of one index are added, which is their meaning.
    """
    fault = compression_fault(*rows, n_columns)
    if fault is not None:
        raise misfit(n_columns, fault)
    indptr = rows.indptr - rows.indptr[0]
    stored = slice(int(rows.indptr[0]), int(rows.indptr[-1]))
    indices, data = rows.indices[stored], rows.data[stored]
    n_rows = len(indptr) - 1
    row_of = np.repeat(np.arange(n_rows), np.diff(indptr))
    if not ((indices[1:] > indices[:-1]) | (row_of[1:] > row_of[:-1])).all():
        order = np.lexsort((indices, row_of))
        indices, row_of = indices[order], row_of[order]
        is_first = np.append(True, (indices[1:] != indices[:-1]) | (row_of[1:] != row_of[:-1]))
        data = np.add.reduceat(data[order], np.flatnonzero(is_first))
        indices = indices[is_first]
        counts = np.bincount(row_of[is_first], minlength=n_rows)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(indptr.dtype)
    return CsrArrays(as_carray(indptr), as_carray(indices), as_carray(data))


def misfit(n_columns: int, reason: str) -> FeatureMismatchError:
    """Build the error for compressed rows that do not fit a model."""
    return FeatureMismatchError(
        f"compressed rows do not fit a model of {n_columns} columns: {reason}",
        fix="Read the data with the model's columns and index base",
    )


def real_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return real numbers as float64; raise for complex numbers and other types."""
    if values.dtype.kind not in "biuf" and values.size:
        raise FeatureMismatchError(
            f"rows hold {values.dtype}, not numbers", fix="Pass numbers, or named features"
        )
    return values.astype(np.float64)


def list_starts(group: ArrayLike | None, n_rows: int) -> NDArray[np.int64]:
    """Return the starts of consecutive lists of the given sizes; None is one list."""
    if group is None:
        return np.array([0, n_rows], dtype=np.int64)
    return np.concatenate([[0], np.cumsum(check_group_sum(group, n_rows))]).astype(np.int64)


def raise_not_finite(model: LinearModel, rows: Any, scores: NDArray[np.float64]) -> NoReturn:
    """Raise an error that names the row and feature that make a score NaN or infinite."""
    i = int(np.flatnonzero(~np.isfinite(scores))[0])
    columns: Any = ()
    values: Any = ()
    if isinstance(rows, CsrArrays):
        span = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
        columns, values = rows.indices[span], rows.data[span]
    elif isinstance(rows, np.ndarray):
        columns, values = np.arange(rows.shape[1]), rows[i]
    not_finite = ~np.isfinite(values)
    if model.bins is not None:
        not_finite &= np.isin(columns, model.bins.linear)  # tables have cells for all values
    positions = np.flatnonzero(not_finite)
    cause = ""
    if len(positions):
        j, names = int(columns[positions[0]]), model.column_names
        name = names[j] if names is not None else str(j + model.base)
        cause = f": feature {printable(name)!r} is {values[positions[0]]}"
    raise SchemaError(
        f"the score is {scores[i]}{cause}",
        fix="Impute missing values and limit huge ones as in training",
        row=i,
    )


def _integers(values: Any, name: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1 or (name == "indptr" and not len(array)):
        raise SchemaError(f"{name} is not a list of integers", fix="Pass integers")
    return array.astype(np.int64)


def uniform_rows(
    rows: Sequence[Mapping[str, Any]], allowed: Mapping[str, Any]
) -> tuple[tuple[str, ...], NDArray[np.float64]] | None:
    """Return names and numbers of rows with the same keys in the same order, the usual case.

    Return None for other rows, unknown names and values that are not numbers.
    """
    names = tuple(rows[0])
    if not allowed.keys() >= set(names):
        return None
    values = np.empty((len(rows), len(names)))
    try:
        # The keys of a row are distinct. So if the concatenated keys repeat those of the first row,
        # every row has exactly these keys.
        if list(chain.from_iterable(rows)) != list(names) * len(rows):
            return None
        numbers = list(chain.from_iterable(map(dict.values, cast("Any", rows))))
        with np.errstate(over="ignore", invalid="ignore"):
            # struct would drop the imaginary part.
            if isinstance(sum(numbers), np.complexfloating):
                return None
        struct.pack_into(f"{values.size}d", values.data, 0, *numbers)
    except (TypeError, OverflowError, struct.error):
        return None
    return names, values


class NamedRows:
    """Read named rows for one model.

    If the model names its features, an unknown name is an error or a counted zero. If it names only
    its weights (hashed features), other names have weight zero. If it reads raw columns,
    ``RawColumns`` reads them.
    """

    def __init__(
        self, model: LinearModel, encoder: LogEncoder | None, unknown: str, strict: bool
    ) -> None:
        self._model = model
        self._encoder = encoder
        self._refuses_unknown = unknown == "error"
        self._missing = model.missing
        if encoder is not None:
            self._columns = RawColumns(encoder.known, encoder.required, unknown, strict)

    def score(self, rows: Sequence[Mapping[str, Any]], issues: InputIssues) -> NDArray[np.float64]:
        """Score dictionaries by ``math.fsum`` of the products, which ignores the order of keys."""
        scores = np.empty(len(rows))
        uniform = uniform_rows(rows, self._positions)
        if uniform is not None:
            names, numbers = uniform
            weights = np.array([self._weights[name] for name in names])
            if exact_scores(numbers, weights, scores):
                return scores
        for i, row in enumerate(rows):
            indices, values = self._row(row, i, issues)
            scores[i] = _sum(map(mul, map(self._by_index.__getitem__, indices), values))
            if not isfinite(scores[i]):
                raise_not_finite(self._model, rows, scores)
        return scores

    def to_rows(self, rows: Any, issues: InputIssues) -> CsrArrays:
        """Return dictionaries, columns or a data frame as compressed rows of features."""
        if self._encoder is not None:
            columns, n_rows = self._columns.read(rows, issues)
            return CsrArrays(*self._encoder.encode(columns, n_rows))
        if not is_list_of_dicts(rows):
            columns, n_rows = columns_of(rows)
            rows = [{name: values[i] for name, values in columns.items()} for i in range(n_rows)]
        uniform = uniform_rows(rows, self._positions) if rows else None
        if uniform is not None and np.isfinite(uniform[1]).all():
            return self._matrix_to_csr(*uniform)
        indptr: list[int] = [0]
        indices: list[int] = []
        data: list[float] = []
        for i, row in enumerate(rows):
            row_indices, values = self._row(row, i, issues)
            indices.extend(row_indices)
            data.extend(values)
            indptr.append(len(indices))
        return CsrArrays(
            np.array(indptr, dtype=np.int64),
            np.array(indices, dtype=np.int64),
            np.array(data, dtype=np.float64),
        )

    def _matrix_to_csr(self, names: tuple[str, ...], values: NDArray[np.float64]) -> CsrArrays:
        positions = np.array([self._positions[name] for name in names], dtype=np.int64)
        weighted = np.flatnonzero(positions >= 0)
        weighted = weighted[np.argsort(positions[weighted])]
        n_rows, width = len(values), len(weighted)
        indices = np.tile(self._model.indices[positions[weighted]], n_rows)
        return CsrArrays(np.arange(n_rows + 1) * width, indices, values[:, weighted].ravel())

    @cached_property
    def _positions(self) -> dict[str, int]:
        """Name -> position among the weights, -1 if the weight is zero."""
        return name_positions(self._model)

    @cached_property
    def _indicator_features(self) -> dict[str, int]:
        """Name -> feature whose missing value adds to the score, even if its weight is zero."""
        spec, names = self._missing, self._model.feature_names or ()
        if spec is None or spec.rule != "indicator":
            return {}
        return {names[j]: j for j in spec.columns}

    @cached_property
    def _weights(self) -> dict[str, float]:
        weights = self._model.values.tolist()
        return {name: weights[k] if k >= 0 else 0.0 for name, k in self._positions.items()}

    @cached_property
    def _by_index(self) -> dict[int, float]:
        return dict(zip(self._model.indices.tolist(), self._model.values.tolist(), strict=True))

    def _row(self, row: Any, i: int, issues: InputIssues) -> tuple[list[int], list[float]]:
        """Check one dictionary and return increasing positions and their values."""
        if not isinstance(row, Mapping):
            raise not_a_dictionary(i, row)
        entries: list[tuple[int, float]] = []
        for name, value in row.items():
            k = self._positions.get(name)
            number = _number(name, value, i, missing=self._missing is not None)
            if k is None:
                self._count_unknown(name, issues)
            elif k >= 0:
                entries.append((int(self._model.indices[k]), number))
            elif name in self._indicator_features and isnan(number):
                entries.append((self._indicator_features[name], number))
        entries.sort()
        return [j for j, _ in entries], [x for _, x in entries]

    def _count_unknown(self, name: object, issues: InputIssues) -> None:
        if self._model.feature_names is None and self._model.names is not None:
            return
        if self._refuses_unknown:
            raise unknown_feature(self._model, name)
        issues.add(features=1)


class RawColumns:
    """Read raw columns for one model.

    An unknown column is an error or counted. A column that rows lack is counted or, with
    ``strict``, an error.
    """

    def __init__(
        self, allowed: Collection[str], required: Sequence[str], unknown: str, strict: bool
    ) -> None:
        self._allowed = frozenset(allowed)
        self._required = required
        self._refuses_unknown = unknown == "error"
        self._refuses_missing = strict
        self._take = itemgetter(*required) if len(required) > 1 else None

    def read(self, rows: Any, issues: InputIssues) -> tuple[dict[str, Sequence[Any]], int]:
        """Read the columns that the weights need; return them and the number of rows."""
        required = self._required
        if not is_list_of_dicts(rows):
            columns, n_rows = columns_of(rows)
            unknown = {str(name): n_rows for name in columns if name not in self._allowed}
            missing = {name: n_rows for name in required if name not in columns}
            self._count(unknown, missing, n_rows, issues)
            return {name: columns[name] for name in required if name in columns}, n_rows
        if set(map(type, rows)) != {dict}:
            for i, row in enumerate(rows):
                if not isinstance(row, Mapping):
                    raise not_a_dictionary(i, row)
        surplus = set().union(*rows) - self._allowed
        unknown = {str(name): sum(name in row for row in rows) for name in surplus}
        missing = {}
        # Almost always every row has every column, which one itemgetter per row reads fastest.
        try:
            if self._take is None:
                columns = {name: [row[name] for row in rows] for name in required}
            else:
                columns = dict(zip(required, zip(*map(self._take, rows), strict=True), strict=True))
        except KeyError:
            counts = {name: sum(name not in row for row in rows) for name in required}
            missing = {name: count for name, count in counts.items() if count}
            columns = {name: [row.get(name) for row in rows] for name in required}
        if unknown or missing:
            self._count(unknown, missing, len(rows), issues)
        return columns, len(rows)

    def _count(
        self, unknown: dict[str, int], missing: dict[str, int], n_rows: int, issues: InputIssues
    ) -> None:
        if unknown and self._refuses_unknown:
            raise _unknown_columns(unknown, self._required)
        if missing and self._refuses_missing:
            names = ", ".join(repr(printable(name)) for name in sorted(missing)[:10])
            count = max(missing.values())
            raise FeatureMismatchError(
                f"{count} of {n_rows} rows lack columns that the model reads: {names}",
                fix="Send the column, with null for missing values",
            )
        issues.add(unknown=unknown, missing=missing)


def is_list_of_dicts(rows: Any) -> bool:
    """Whether rows are a non-empty list of dictionaries."""
    return isinstance(rows, (list, tuple)) and bool(rows) and isinstance(rows[0], Mapping)


def rule_columns(rows: Any, further: Mapping[str, Any]) -> Callable[[str], Any]:
    """Return a function that reads a column of a list for rules; None: there is no such column.

    Parameters
    ----------
    further
        Columns that take precedence over the rows' own.
    """
    columns: Mapping[Any, Any] = {}
    has_dicts = is_list_of_dicts(rows)
    if not has_dicts and (isinstance(rows, Mapping) or hasattr(rows, "columns")):
        columns, _ = columns_of(rows)

    def read(name: str) -> Any:
        values = further.get(name)
        if values is None and has_dicts:
            # Almost always every row has the column, which itemgetter reads fastest.
            try:
                return list(map(itemgetter(name), rows))
            except KeyError:
                if any(name in row for row in rows):
                    return [row.get(name) for row in rows]
        return columns.get(name) if values is None else values

    return read


def columns_of(rows: Any) -> tuple[dict[Any, Sequence[Any]], int]:
    """Return all columns of a mapping or data frame, and the number of rows."""
    if isinstance(rows, Mapping):
        columns = dict(rows)
    elif hasattr(rows, "columns") and hasattr(rows, "shape"):
        import narwhals.stable.v1 as nw

        frame = nw.from_native(rows, eager_only=True)
        columns = {name: _values_of(frame[name]) for name in frame.columns}
    else:
        raise FeatureMismatchError(
            f"rows of type {type(rows).__name__} cannot be scored",
            fix="Pass an array, CSR, a list of dictionaries or a data frame",
        )
    sizes = {len(values) for values in columns.values()}
    if len(sizes) > 1:
        raise SchemaError("columns have different lengths", fix="Pass one value per row")
    return columns, sizes.pop() if sizes else 0


def _values_of(series: Any) -> Sequence[Any]:
    """Return a column of a frame as Python values."""
    import pyarrow as pa

    if isinstance(getattr(series.to_native(), "dtype", None), np.dtype) and series.dtype.is_float():
        return cast("Sequence[Any]", series.to_list())  # Arrow would make NaN null
    try:
        return cast("Sequence[Any]", series.to_arrow().to_pylist())
    except pa.ArrowException:  # objects of several types
        return cast("Sequence[Any]", series.to_list())


def _unknown_columns(unknown: Iterable[str], required: Sequence[str]) -> FeatureMismatchError:
    """Build the error for raw columns that the model does not have."""
    from difflib import get_close_matches

    names = sorted(unknown)
    first_names = ", ".join(repr(printable(name)) for name in names[:10])
    close = get_close_matches(names[0][:200], required[:10_000])
    suggestion = f"Did you mean {printable(close[0])!r}? " if close else ""
    return FeatureMismatchError(
        f"the model has no column {first_names}",
        fix=f"{suggestion}It reads {', '.join(map(printable, required[:10]))}",
    )


def not_a_dictionary(i: int, row: object) -> SchemaError:
    """Build the error for a row that is not a dictionary among dictionaries."""
    return SchemaError(
        f"not a dictionary but {type(row).__name__}", fix="Pass all rows as dictionaries", row=i
    )


def _number(name: object, value: Any, i: int, *, missing: bool) -> float:
    if missing and (value is None or (isinstance(value, float) and isnan(value))):
        return nan
    if isinstance(value, NUMBERS):
        try:
            number = float(value)
        except OverflowError:  # an integer that float64 cannot hold
            number = inf
        if isfinite(number):
            return number
    text = printable(repr(value), 40)
    raise SchemaError(
        f"feature {printable(str(name))!r} is {text}, not a finite number",
        fix="Impute missing values as in training; leave absent features out",
        row=i,
    )


def _sum(products: Iterable[float]) -> float:
    """Return ``math.fsum``, or infinity if the sum overflows."""
    try:
        return fsum(products)
    except OverflowError:
        return inf
