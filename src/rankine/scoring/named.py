"""Rows by name: dictionaries, column mappings, data frames."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import fsum, inf, isfinite
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, SchemaError
from rankine.core.safe_text import printable
from rankine.model.explain import name_positions, unknown_feature
from rankine.scoring.lists import Parts, refuse_scores
from rankine.scoring.table import NamedTable, exact_scores

if TYPE_CHECKING:
    from rankine.model import LinearModel
    from rankine.transforms.encoders import ColumnEncoder

__all__ = ["NamedRows"]


class NamedRows:
    """Reads named rows for one model.

    Where the model names its features, an unknown name is an error or a counted zero. Where it
    names only its weights (hashed features), a name it does not hold has weight zero.
    """

    def __init__(self, model: LinearModel, encoder: ColumnEncoder | None, unknown: str) -> None:
        self._model = model
        self._encoder = encoder
        self._strict = unknown == "error"
        self._lock = threading.Lock()
        self.unknown_count = 0

    @staticmethod
    def accepts(rows: Any) -> bool:
        """Whether these are dictionaries, one per row."""
        return isinstance(rows, (list, tuple)) and bool(rows) and isinstance(rows[0], Mapping)

    def score(self, rows: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """Scores of dictionaries: ``math.fsum`` of the products, whatever the order of the keys."""
        weight_of, scores = self._weights.__getitem__, np.empty(len(rows))
        layout: tuple[str, ...] = ()
        weights: list[float] = []
        for i, row in enumerate(rows):
            try:
                if (names := tuple(row)) != layout:  # rows of a list usually have the same keys
                    weights, layout = list(map(weight_of, names)), names
                scores[i] = fsum(map(mul, weights, row.values()))
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
                indices, values = self._row(row, i)
                scores[i] = _sum(map(mul, map(self._by_index.__getitem__, indices), values))
            if not isfinite(scores[i]):
                self._row(row, i)  # names the feature, unless the products are too large
                refuse_scores(self._model, rows, scores[: i + 1])
        return scores

    def score_table(self, table: NamedTable) -> NDArray[np.float64]:
        """Scores of rows with the same columns; the same bits as for their dictionaries."""
        weights = np.empty(len(table.names))
        for j, name in enumerate(table.names):
            weight = self._weights.get(name)
            if weight is None:
                self._count_unknown(name, len(table))
                weight = 0.0
            weights[j] = weight
        scores = np.empty(len(table))
        with np.errstate(over="ignore", invalid="ignore"):
            finite = exact_scores(table.values, weights, scores)
        if finite:
            return scores
        return self.score(table.dictionaries())  # names what is not finite

    def to_csr(self, rows: Any) -> Parts:
        """Rows over the model's features, from dictionaries, columns or a data frame."""
        if isinstance(rows, NamedTable):
            return self._table_to_csr(rows)
        if self._encoder is not None:
            columns, n_rows = self._columns(rows, self._encoder.required)
            return Parts(*self._encoder.encode(columns, n_rows))
        if not self.accepts(rows):
            columns, n_rows = self._columns(rows, tuple(self._positions))
            rows = [{name: values[i] for name, values in columns.items()} for i in range(n_rows)]
        starts, indices, data = [0], [], []
        for i, row in enumerate(rows):
            found, values = self._row(row, i)
            indices.extend(found)
            data.extend(values)
            starts.append(len(indices))
        return Parts(
            np.array(starts, dtype=np.int64),
            np.array(indices, dtype=np.int64),
            np.array(data, dtype=np.float64),
        )

    def _table_to_csr(self, table: NamedTable) -> Parts:
        if self._encoder is not None:
            return self.to_csr(dict(zip(table.names, table.values.T.tolist(), strict=True)))
        found = []
        for j, name in enumerate(table.names):
            k = self._positions.get(name)
            if k is None:
                self._count_unknown(name, len(table))
            elif k >= 0:
                found.append((int(self._model.indices[k]), j))
        found.sort()
        n, width = len(table), len(found)
        indices = np.array([index for index, _ in found], dtype=np.int64)
        data = table.values[:, [j for _, j in found]]
        return Parts(
            np.arange(n + 1) * width, np.tile(indices, n), np.ascontiguousarray(data).ravel()
        )

    # ------------------------------------------------------------------ lookups, made once
    @cached_property
    def _positions(self) -> dict[str, int]:
        """Name -> position among the weights, -1 where the weight is zero."""
        return name_positions(self._model)

    @cached_property
    def _weights(self) -> dict[str, float]:
        weights = self._model.values.tolist()
        return {name: weights[k] if k >= 0 else 0.0 for name, k in self._positions.items()}

    @cached_property
    def _by_index(self) -> dict[int, float]:
        return dict(zip(self._model.indices.tolist(), self._model.values.tolist(), strict=True))

    def _row(self, row: Any, i: int) -> tuple[list[int], list[float]]:
        """Positions (increasing) and values of one dictionary, every entry checked."""
        if not isinstance(row, Mapping):
            raise SchemaError(
                f"row {i} is no dictionary but {type(row).__name__}",
                fix="Pass all rows as dictionaries of named features",
            )
        found: list[tuple[int, float]] = []
        for name, value in row.items():
            k = self._positions.get(name)
            number = self._number(name, value, i)
            if k is None:
                self._count_unknown(name)
            elif k >= 0:
                found.append((int(self._model.indices[k]), number))
        found.sort()
        return [j for j, _ in found], [x for _, x in found]

    def _number(self, name: object, value: Any, i: int) -> float:
        if isinstance(value, (int, float, np.number, np.bool_)) and not isinstance(value, complex):
            try:
                number = float(value)
            except OverflowError:  # an integer beyond the doubles
                number = inf
            if isfinite(number):
                return number
        shown = printable(repr(value), 40)
        raise SchemaError(
            f"feature {printable(str(name))!r} of row {i} is {shown}, not a finite number",
            fix="Impute missing values as in training; leave absent features out",
        )

    def _count_unknown(self, name: object, times: int = 1) -> None:
        if self._model.feature_names is None and self._model.names is not None:
            return
        if self._strict:
            raise unknown_feature(self._model, name)
        with self._lock:
            self.unknown_count += times

    def _columns(self, rows: Any, wanted: tuple[str, ...]) -> tuple[dict[str, Sequence[Any]], int]:
        """The wanted columns of dictionaries, of a mapping of columns or of a data frame."""
        known = frozenset(self._positions) if self._encoder is None else self._encoder.known
        if self.accepts(rows):
            given = set().union(*(row.keys() for row in rows))
            self._check_known(given - known)
            return {c: [row.get(c) for row in rows] for c in wanted if c in given}, len(rows)
        if isinstance(rows, Mapping):
            given, read = set(rows), rows.__getitem__
            sizes = {len(values) for values in rows.values()}
        elif hasattr(rows, "columns") and hasattr(rows, "shape"):
            import narwhals.stable.v1 as nw

            frame = nw.from_native(rows, eager_only=True)
            given, sizes = set(frame.columns), {len(frame)}

            def read(name: str) -> Any:
                return frame[name].to_list()

        else:
            raise FeatureMismatchError(
                f"rows of type {type(rows).__name__} cannot be scored",
                fix="Pass an array, CSR, a list of dictionaries or a data frame",
            )
        if len(sizes) > 1:
            raise SchemaError("columns have different lengths", fix="Pass one value per row")
        self._check_known(given - known)
        return {c: read(c) for c in wanted if c in given}, sizes.pop() if sizes else 0

    def _check_known(self, surplus: set[Any]) -> None:
        for name in sorted(map(str, surplus)):
            self._count_unknown(name)


def _sum(products: Iterable[float]) -> float:
    """``math.fsum``; infinite where the sum is beyond the doubles."""
    try:
        return fsum(products)
    except OverflowError:
        return inf
