"""Raw columns of a log into rows of features, as a ``LogColumns`` spec says.

Training and serving run this same code; it needs NumPy and the compiler, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import SchemaError
from rankine.core.specs import LogColumns
from rankine.kernels.compile import jit
from rankine.kernels.rows import CsrRows
from rankine.transforms.categories import HashedPlaces, KnownPlaces, category_texts, places_of
from rankine.transforms.encoders import FeatureSpace, register_encoder

__all__ = ["LogEncoder"]


@register_encoder(LogColumns)
class LogEncoder:
    """Encodes raw columns.

    Attributes
    ----------
    required
        Columns that the non-zero weights read (all, when the weights are not known).
    known
        All columns that a row may hold.
    """

    def __init__(self, spec: LogColumns, space: FeatureSpace | None = None) -> None:
        self.spec = spec
        self.known = frozenset([*spec.columns, *spec.ignored])
        self._fields: list[tuple[tuple[str, ...], Any]] = []
        start = len(spec.numeric)
        for field in spec.one_hot:
            self._fields.append(((field.column,), KnownPlaces(field.values, start)))
            start += len(field.values)
        for columns in (*((name,) for name in spec.hashed), *spec.crosses):
            self._fields.append((columns, HashedPlaces(columns, spec.hash_bits, start)))
        self.required = spec.columns if space is None else self._read_by(space.indices)

    def _read_by(self, indices: NDArray[np.int64]) -> tuple[str, ...]:
        spec = self.spec
        numeric = [name for j, name in enumerate(spec.numeric) if j in set(indices.tolist())]
        start = len(spec.numeric)
        for field in spec.one_hot:
            stop = start + len(field.values)
            if ((indices >= start) & (indices < stop)).any():
                numeric.append(field.column)
            start = stop
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
        numbers = np.zeros((n_rows, len(self.spec.numeric)))
        for j, name in enumerate(self.spec.numeric):
            if name in columns:
                numbers[:, j] = numeric_values(columns[name], name)
        fields = np.full((n_rows, len(self._fields)), -1, dtype=np.int64)
        for j, (_, places) in enumerate(self._fields):
            values = self._values(j, columns)
            if values is not None:
                fields[:, j] = places_of(places, values)
        indptr = np.zeros(n_rows + 1, dtype=np.int64)
        room = n_rows * (numbers.shape[1] + fields.shape[1])
        indices = np.empty(room, dtype=np.int32)
        values_out = np.empty(room)
        used = _assemble(numbers, fields, indptr, indices, values_out)
        return CsrRows(indptr, indices[:used], values_out[:used])

    def _values(self, j: int, columns: Mapping[str, Any]) -> Sequence[Any] | None:
        names, _ = self._fields[j]
        if any(name not in columns for name in names):
            return None
        texts = [category_texts(columns[name], name) for name in names]
        return texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))

    def name_features(self, columns: Mapping[str, Any], wanted: dict[int, str | None]) -> None:
        """Fill in the names of the wanted hashed features that these rows hold."""
        open_places = np.array([j for j, name in wanted.items() if name is None], dtype=np.int64)
        for j, (_, places) in enumerate(self._fields):
            values = self._values(j, columns)
            if values is None or isinstance(places, KnownPlaces) or len(open_places) == 0:
                continue
            found, first = np.unique(places_of(places, values), return_index=True)
            for place, row in zip(found.tolist(), first.tolist(), strict=True):
                if place in wanted and wanted[place] is None:
                    wanted[place] = places.name(values[row])

    def known_names(self) -> list[str]:
        """Names of the numeric and one-hot features, in order."""
        values = [f"{f.column}={value}" for f in self.spec.one_hot for value in f.values]
        return [*self.spec.numeric, *values]


def numeric_values(values: Any, name: str) -> NDArray[np.float64]:
    """A numeric column as float64; missing values are 0, infinities and text are refused."""
    try:
        plain = (
            np.array([0.0 if v is None else v for v in values], dtype=np.float64)
            if (not isinstance(values, np.ndarray) or values.dtype.kind == "O")
            else values.astype(np.float64)
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"column {name!r} is not numeric: {error}",
            fix="Name it as categorical, or store numbers",
            column=name,
        ) from error
    plain = np.where(np.isnan(plain), 0.0, plain)
    if np.isinf(plain).any():
        raise SchemaError(
            f"column {name!r} is infinite at row {int(np.argmax(np.isinf(plain)))}",
            fix="Store finite numbers",
            column=name,
        )
    return plain


@jit
def _assemble(numbers: Any, fields: Any, indptr: Any, indices: Any, values: Any) -> int:
    """CSR rows: numbers first, then the places of the fields, sorted, equal places added up."""
    used = 0
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            if numbers[i, j] != 0.0:
                indices[used] = j
                values[used] = numbers[i, j]
                used += 1
        first = used
        for k in range(fields.shape[1]):
            place = fields[i, k]
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
