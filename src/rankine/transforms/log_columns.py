"""Encode raw columns of a log as rows of features, as a ``LogColumns`` spec describes.

Training and serving run this same code; it needs only NumPy and the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.column_values import NUMBER_FIX, number_of
from rankine.core.errors import SchemaError
from rankine.core.safe_text import printable
from rankine.core.specs import Binned, LogColumns
from rankine.kernels.compile import jit
from rankine.kernels.rows import CsrRows
from rankine.transforms.categories import (
    HashedFeatures,
    OneHotFeatures,
    category_texts,
    distinct,
    feature_indices,
)
from rankine.transforms.value_sets import NewValues

if TYPE_CHECKING:
    from rankine.model import LinearModel


class LogEncoder:
    """Encodes raw columns.

    Parameters
    ----------
    spec
        How columns become features.
    weights
        Indices of a model's non-zero weights, if there is a model.
    keeps_missing
        Whether a missing number is NaN; otherwise it has no entry.

    Attributes
    ----------
    required
        Columns that the non-zero weights need; all columns without ``weights``.
    known
        All columns that a row may contain.
    """

    def __init__(
        self,
        spec: LogColumns,
        weights: NDArray[np.int64] | None = None,
        *,
        keeps_missing: bool = False,
    ) -> None:
        self.spec = spec
        self.keeps_missing = keeps_missing
        self.known = frozenset([*spec.columns, *spec.ignored])
        #: Columns of each categorical or binned field, and the feature indices of its values.
        self._fields: list[tuple[tuple[str, ...], Any]] = []
        start = len(spec.numeric)
        for field in spec.one_hot:
            self._fields.append(((field.column,), OneHotFeatures(field.values, start)))
            start += len(field.values)
        for binned in spec.binned:
            self._fields.append(((binned.column,), BinnedFeatures(binned, start)))
            start += binned.n_cells
        for columns in (*((name,) for name in spec.hashed), *spec.crosses):
            self._fields.append((columns, HashedFeatures(columns, spec.hash_bits, start)))
        numbers = {*spec.numeric, *(binned.column for binned in spec.binned)}
        #: Numeric columns that are categories of crosses too: those of their numbers.
        self._crossed_numbers = numbers & {name for cross in spec.crosses for name in cross}
        #: The previous dictionary of texts of each field, and their feature indices: blocks often
        #: share one dictionary, whose texts then need to be hashed only once.
        self._last_lookups: dict[int, tuple[Any, NDArray[np.int64]]] = {}
        self.required = spec.columns
        if weights is not None:
            self.required = self._needed_columns(weights)

    def _needed_columns(self, indices: NDArray[np.int64]) -> tuple[str, ...]:
        """Return the columns that features of given indices are computed from."""
        spec = self.spec
        nonzero = set(indices.tolist())
        names = [name for j, name in enumerate(spec.numeric) if j in nonzero]
        start = len(spec.numeric)
        sizes = [(field.column, len(field.values)) for field in spec.one_hot]
        sizes += [(field.column, field.n_cells) for field in spec.binned]
        for column, size in sizes:
            if ((indices >= start) & (indices < start + size)).any():
                names.append(column)
            start += size
        if (indices >= start).any():
            names.extend(spec.hashed)
            names.extend(name for cross in spec.crosses for name in cross)
        return tuple(dict.fromkeys(names))

    def encode(self, columns: Mapping[str, Sequence[Any]], n_rows: int) -> CsrRows:
        """Encode rows as CSR; absent columns count as missing values."""
        numeric = self.spec.numeric
        columns = self._with_crossed_numbers(columns)
        numbers = np.full((len(numeric), n_rows), np.nan)
        for j, name in enumerate(numeric):
            if name in columns:
                numbers[j] = numeric_values(columns[name], name)
        fields = np.full((len(self._fields), n_rows), -1, dtype=np.int64)
        for j, (_, features) in enumerate(self._fields):
            if isinstance(features, BinnedFeatures):
                fields[j] = features.indices(columns, n_rows)
                continue
            lookup = self._look_up(j, columns)
            if lookup is not None:
                _, codes, value_indices = lookup
                if codes is not None:
                    value_indices = value_indices[codes]
                fields[j] = value_indices
        indptr = np.zeros(n_rows + 1, dtype=np.int64)
        capacity = n_rows * (len(numeric) + len(self._fields))
        indices = np.empty(capacity, dtype=np.int32)
        values = np.empty(capacity)
        n_entries = _assemble(numbers, fields, self.keeps_missing, indptr, indices, values)
        if n_entries < 0:
            row, j = divmod(-1 - n_entries, len(numeric))
            raise SchemaError(
                f"column {numeric[j]!r} is infinite",
                fix="Store finite numbers",
                column=numeric[j],
                row=row,
            )
        return CsrRows(indptr, indices[:n_entries], values[:n_entries])

    def matrix(self, columns: Mapping[str, Sequence[Any]], n_rows: int) -> NDArray[np.float64]:
        """Encode rows as columns of tables; absent columns are missing."""
        X = np.full((n_rows, self.spec.n_features), np.nan)
        numeric = self.spec.numeric
        for j, name in enumerate(numeric):
            if name in columns:
                X[:, j] = numeric_values(columns[name], name)
        for j, field in enumerate(self.spec.one_hot, len(numeric)):
            if field.column in columns:
                texts = category_texts(columns[field.column], field.column)
                numbers = {"": np.nan, **{text: float(k) for k, text in enumerate(field.values)}}
                X[:, j] = [numbers.get(text, np.inf) for text in texts]
        return X

    def _with_crossed_numbers(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the columns with numbers where crosses read them; blocks of logs have numbers."""
        if not self._crossed_numbers or hasattr(columns, "coded"):
            return columns
        present = [name for name in self._crossed_numbers if name in columns]
        return {**columns, **{name: numeric_values(columns[name], name) for name in present}}

    def _look_up(
        self, j: int, columns: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Any, NDArray[np.int64]] | None:
        """Return the distinct values of field j, the code of each row, and their feature indices.

        The codes are None if ``values`` has one entry per row. A dictionary of texts that is the
        same as in the previous block is not looked up again.
        """
        names, features = self._fields[j]
        if any(name not in columns for name in names):
            return None
        values, codes = distinct(columns, names)
        if codes is None:
            return values, codes, feature_indices(features, values)
        last = self._last_lookups.get(j)
        if last is None or last[0] is not values:
            if isinstance(features, HashedFeatures):
                features.add_texts(values)
            last = self._last_lookups[j] = (values, feature_indices(features, values))
        return values, codes, last[1]

    def hashed_names(self) -> HashedNames:
        """Return an empty collection of the names of hashed features."""
        hashed = [part for part in self._fields if isinstance(part[1], HashedFeatures)]
        return HashedNames(hashed, self._with_crossed_numbers)


class HashedNames:
    """Names of hashed features, collected from the rows of a log.

    Where several values share a feature, the first column names it, and of its values the first in
    the order of texts: names do not depend on the order of rows and on blocks.
    """

    def __init__(
        self,
        fields: Sequence[tuple[tuple[str, ...], HashedFeatures]],
        prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        self._prepare = prepare
        self._features = [features for _, features in fields]
        self._new_values = [NewValues(columns) for columns, _ in fields]
        #: Number of the field and value that name each feature.
        self._values: dict[int, tuple[int, Any]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def add(self, columns: Mapping[str, Any], wanted: Container[int] | None = None) -> None:
        """Add the values of a block, of all features or of ``wanted`` ones."""
        columns = self._prepare(columns)
        for field, (features, new_values) in enumerate(
            zip(self._features, self._new_values, strict=True)
        ):
            if any(name not in columns for name in new_values.columns):
                continue
            values = new_values.find(columns)
            features.add_texts(values)
            for value, feature in zip(values, map(features.__getitem__, values), strict=True):
                if feature < 0 or (wanted is not None and feature not in wanted):
                    continue
                candidate = field, value
                previous = self._values.setdefault(feature, candidate)
                if previous is not candidate and self._order(candidate) < self._order(previous):
                    self._values[feature] = candidate

    def _order(self, value: tuple[int, Any]) -> tuple[int, str]:
        return value[0], self._features[value[0]].name(value[1])

    def get(self, feature: int) -> str | None:
        """Return the name of a feature; None if no row had it."""
        value = self._values.get(feature)
        return None if value is None else self._order(value)[1]


class BinnedFeatures:
    """Feature indices of the cells of a binned column."""

    def __init__(self, field: Binned, start: int) -> None:
        self._column = field.column
        self._cuts = np.array(field.cuts)
        self._start = start

    def indices(self, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.int64]:
        """Return the feature index of each row; an absent column is missing everywhere."""
        numbers = np.full(n_rows, np.nan)
        if self._column in columns:
            numbers = numeric_values(columns[self._column], self._column)
        cells = np.searchsorted(self._cuts, numbers, side="right")
        cells[np.isnan(numbers)] = len(self._cuts) + 1
        return self._start + cells.astype(np.int64)


def columns_of(model: LinearModel) -> LogColumns | None:
    """Return how a model encodes raw columns; None where its rows are features already."""
    return next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)


def feature_name(model: LinearModel, j: int) -> str | None:
    """Return the name of a feature, with or without a weight; None if it has none."""
    if model.feature_names is not None:
        return model.feature_names[j]
    columns = columns_of(model)
    if columns is not None and j < columns.hash_start:
        return columns.names[j]
    position = int(np.searchsorted(model.indices, j))
    if model.names is None or position == model.nnz or model.indices[position] != j:
        return None
    return model.weight_names[position]


def encoder_of(model: LinearModel) -> LogEncoder | None:
    """Return the encoder of a model of raw columns; None where its rows are features already."""
    spec = columns_of(model)
    if spec is None:
        return None
    missing = model.missing
    indices = model.indices
    if missing is not None:
        # A feature without a weight still adds to a score where its values are missing.
        indices = np.union1d(indices, missing.columns)
    return LogEncoder(spec, indices.astype(np.int64), keeps_missing=missing is not None)


def numeric_values(values: Any, name: str) -> NDArray[np.float64]:
    """Convert a numeric column to float64, NaN where a value is missing; refuse anything else."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of several lengths
        array = np.asarray(values, dtype=object)
    if array.ndim != 1:
        raise SchemaError(f"column {name!r} is not a list of numbers", fix="Pass one value per row")
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    numbers = np.empty(len(array))
    for row, value in enumerate(values):
        try:
            numbers[row] = number_of(value)
        except (TypeError, ValueError) as error:
            raise SchemaError(
                f"{printable(repr(value), 40)} in numeric column {name!r} is not a number",
                fix=NUMBER_FIX,
                column=name,
                row=row,
            ) from error
    return numbers


@jit
def _assemble(
    numbers: Any, fields: Any, keeps_missing: bool, indptr: Any, indices: Any, values: Any
) -> int:
    """Assemble CSR rows: numbers, then the sorted features of the fields, equal ones summed.

    Missing numbers (NaN) have no entry unless they are kept. Returns the number of entries, or
    -1 - (i m + j) where number j of m in row i is infinite.
    """
    n_entries = 0
    width = numbers.shape[0]
    for i in range(numbers.shape[1]):
        for j in range(width):
            x = numbers[j, i]
            if np.isinf(x):
                return -1 - (i * width + j)
            if x != 0.0 and (keeps_missing or not np.isnan(x)):
                indices[n_entries] = j
                values[n_entries] = x
                n_entries += 1
        first = n_entries
        for k in range(fields.shape[0]):
            feature = fields[k, i]
            if feature < 0:
                continue
            # Insertion sort: a row has few fields.
            at = n_entries
            while at > first and indices[at - 1] > feature:
                at -= 1
            if at > first and indices[at - 1] == feature:
                values[at - 1] += 1.0
                continue
            for move in range(n_entries, at, -1):
                indices[move] = indices[move - 1]
                values[move] = values[move - 1]
            indices[at] = feature
            values[at] = 1.0
            n_entries += 1
        indptr[i + 1] = n_entries
    return n_entries
