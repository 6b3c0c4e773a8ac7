"""Raw columns of a log into rows of features, as a ``LogColumns`` spec says.

Training and serving run this same code; it needs NumPy and the compiler, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import SchemaError
from rankine.core.safe_text import printable
from rankine.core.specs import Binned, LogColumns
from rankine.kernels.compile import jit
from rankine.kernels.rows import CsrRows
from rankine.transforms.categories import (
    HashedPlaces,
    KnownPlaces,
    category_texts,
    distinct,
    first_rows,
    places_of,
)

if TYPE_CHECKING:
    from rankine.model import LinearModel


class LogEncoder:
    """Encodes raw columns.

    ``weights`` are the positions of a model's non-zero weights, where there is a model. A missing
    number has no entry, or is NaN where the encoder ``keeps_missing``.

    Attributes
    ----------
    required
        Columns that the non-zero weights read (all, when the weights are not known).
    known
        All columns that a row may hold.
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
        self._fields: list[tuple[tuple[str, ...], Any]] = []
        start = len(spec.numeric)
        for field in spec.one_hot:
            self._fields.append(((field.column,), KnownPlaces(field.values, start)))
            start += len(field.values)
        for binned in spec.binned:
            self._fields.append(((binned.column,), CellPlaces(binned, start)))
            start += binned.n_cells
        for columns in (*((name,) for name in spec.hashed), *spec.crosses):
            self._fields.append((columns, HashedPlaces(columns, spec.hash_bits, start)))
        #: Texts that were met last in each field, and their places.
        self._tables: dict[int, tuple[Any, NDArray[np.int64]]] = {}
        self.required = spec.columns if weights is None else self._read_by(weights)

    def _read_by(self, indices: NDArray[np.int64]) -> tuple[str, ...]:
        spec = self.spec
        numeric = [name for j, name in enumerate(spec.numeric) if j in set(indices.tolist())]
        start = len(spec.numeric)
        sizes = [(field.column, len(field.values)) for field in spec.one_hot]
        for column, size in [*sizes, *((field.column, field.n_cells) for field in spec.binned)]:
            if ((indices >= start) & (indices < start + size)).any():
                numeric.append(column)
            start += size
        if (indices >= start).any():
            numeric.extend(spec.hashed)
            numeric.extend(name for cross in spec.crosses for name in cross)
        return tuple(dict.fromkeys(numeric))

    @property
    def n_features(self) -> int:
        """Size of the feature space."""
        return self.spec.n_features

    def encode(self, columns: Mapping[str, Sequence[Any]], n_rows: int) -> CsrRows:
        """Rows over the features; absent columns count as missing values."""
        numeric = self.spec.numeric
        numbers = np.full((len(numeric), n_rows), np.nan)
        for j, name in enumerate(numeric):
            if name in columns:
                numbers[j] = numeric_values(columns[name], name)
        fields = np.full((len(self._fields), n_rows), -1, dtype=np.int64)
        for j, (_, places) in enumerate(self._fields):
            if isinstance(places, CellPlaces):
                fields[j] = places.of(columns, n_rows)
                continue
            found = self._places(j, columns)
            if found is not None:
                _, codes, table = found
                fields[j] = table if codes is None else table[codes]
        indptr = np.zeros(n_rows + 1, dtype=np.int64)
        room = n_rows * (len(numeric) + len(self._fields))
        indices = np.empty(room, dtype=np.int32)
        values_out = np.empty(room)
        used = _assemble(numbers, fields, self.keeps_missing, indptr, indices, values_out)
        if used < 0:
            row, j = divmod(-1 - used, len(numeric))
            raise SchemaError(
                f"row {row}: column {numeric[j]!r} is infinite",
                fix="Store finite numbers",
                column=numeric[j],
            )
        return CsrRows(indptr, indices[:used], values_out[:used])

    def matrix(self, columns: Mapping[str, Sequence[Any]], n_rows: int) -> NDArray[np.float64]:
        """Rows of the columns of tables; absent columns are missing."""
        out = np.full((n_rows, self.n_features), np.nan)
        numeric = self.spec.numeric
        for j, name in enumerate(numeric):
            if name in columns:
                out[:, j] = numeric_values(columns[name], name)
        for j, field in enumerate(self.spec.one_hot, len(numeric)):
            if field.column in columns:
                texts = category_texts(columns[field.column], field.column)
                numbers = {"": np.nan, **{text: float(k) for k, text in enumerate(field.values)}}
                out[:, j] = [numbers.get(text, np.inf) for text in texts]
        return out

    def _places(
        self, j: int, columns: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Any, NDArray[np.int64]] | None:
        """Distinct values of a field, which of them each row holds (None: its own), their places.

        A dictionary that comes again is not looked up again.
        """
        names, places = self._fields[j]
        if any(name not in columns for name in names):
            return None
        values, codes = distinct(columns, names)
        if codes is None:
            return values, codes, places_of(places, values)
        known = self._tables.get(j)
        if known is None or known[0] is not values:
            known = self._tables[j] = (values, places_of(places, values))
        return values, codes, known[1]

    def name_features(self, columns: Mapping[str, Any], wanted: dict[int, str | None]) -> None:
        """Fill in the names of the wanted hashed features that these rows hold."""
        open_places = np.array([j for j, name in wanted.items() if name is None], dtype=np.int64)
        for j, (_, places) in enumerate(self._fields):
            if not isinstance(places, HashedPlaces) or len(open_places) == 0:
                continue
            known = self._places(j, columns)
            if known is None:
                continue
            values, codes, table = known
            looked_for = np.flatnonzero(np.isin(table, open_places))
            if codes is not None:
                first = first_rows(codes, len(values))
                looked_for = looked_for[first[looked_for] >= 0]
                looked_for = looked_for[np.argsort(first[looked_for])]
            for k in looked_for.tolist():
                if wanted[int(table[k])] is None:
                    wanted[int(table[k])] = places.name(values[k])


class CellPlaces:
    """Places of the cells of a binned column."""

    def __init__(self, field: Binned, start: int) -> None:
        self._column = field.column
        self._cuts = np.array(field.cuts)
        self._start = start

    def of(self, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.int64]:
        """Place of each row's cell; an absent column is missing everywhere."""
        numbers = np.full(n_rows, np.nan)
        if self._column in columns:
            numbers = numeric_values(columns[self._column], self._column)
        cells = np.searchsorted(self._cuts, numbers, side="right")
        cells[np.isnan(numbers)] = len(self._cuts) + 1
        return self._start + cells.astype(np.int64)


def encoder_of(model: LinearModel) -> LogEncoder | None:
    """The encoder of a model that reads raw columns; None where its rows are features already."""
    log = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    if log is None:
        return None
    filled = model.missing
    read = model.indices if filled is None else np.union1d(model.indices, filled.columns)
    return LogEncoder(log, read.astype(np.int64), keeps_missing=filled is not None)


def numeric_values(values: Any, name: str) -> NDArray[np.float64]:
    """A numeric column as float64, NaN where a value is missing; anything else is refused."""
    numbers = _floats(values)
    if numbers is not None and numbers.ndim == 1:
        return numbers
    for row, value in enumerate(values):
        number = _floats(value)
        if number is None or number.ndim:
            shown = printable(repr(value), 40)
            raise SchemaError(
                f"row {row}: {shown} in numeric column {name!r} is not a number",
                fix="Name it as categorical, or store numbers",
                column=name,
            )
    raise SchemaError(f"column {name!r} is not a list of numbers", fix="Pass one value per row")


def _floats(values: Any) -> NDArray[np.float64] | None:
    """Numbers as float64, None as NaN; None where there is anything else."""
    try:
        found = np.asarray(values)
        if found.dtype.kind == "c" or (
            found.dtype == object and any(isinstance(x, np.complexfloating) for x in found.flat)
        ):
            return None
        return found.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        return None


@jit
def mark_hashed(indices: Any, start: int, used: Any) -> None:
    """used[j] = True for the places from ``start`` on, folded into the length of ``used``."""
    mask = used.shape[0] - 1
    for k in range(indices.shape[0]):
        if indices[k] >= start:
            used[(indices[k] - start) & mask] = True


@jit
def _assemble(
    numbers: Any, fields: Any, keeps_missing: bool, indptr: Any, indices: Any, values: Any
) -> int:
    """CSR rows: numbers first, then the places of the fields, sorted, equal places added up.

    Missing numbers (NaN) have no entry unless they are kept. Returns the number of entries, or
    -1 - (i m + j) where number j of m in row i is infinite.
    """
    used = 0
    width = numbers.shape[0]
    for i in range(numbers.shape[1]):
        for j in range(width):
            x = numbers[j, i]
            if np.isinf(x):
                return -1 - (i * width + j)
            if x != 0.0 and (keeps_missing or not np.isnan(x)):
                indices[used] = j
                values[used] = x
                used += 1
        first = used
        for k in range(fields.shape[0]):
            place = fields[k, i]
            if place < 0:
                continue
            at = used
            while at > first and indices[at - 1] > place:
                at -= 1
            if at > first and indices[at - 1] == place:
                values[at - 1] += 1.0
                continue
            for move in range(used, at, -1):
                indices[move] = indices[move - 1]
                values[move] = values[move - 1]
            indices[at] = place
            values[at] = 1.0
            used += 1
        indptr[i + 1] = used
    return used
