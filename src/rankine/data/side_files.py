"""Data beside the rows of a text file: group sizes and row weights."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DataError, ParseError, SchemaError

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.data.options import ReadOptions

__all__ = ["SideData", "apply_side_data"]


class SideData:
    """Hands group sizes and weights to blocks in row order, and checks that they fit the rows."""

    def __init__(self, options: ReadOptions) -> None:
        self._codes: NDArray[np.int64] | None = None
        if options.group is not None:
            sizes = _group_sizes(options.group)
            self._ends = np.cumsum(sizes)
            self._codes = np.arange(len(sizes))
        self._weight = None if options.sample_weight is None else _weights(options.sample_weight)
        self._row = 0

    def attach(self, block: Dataset) -> Dataset:
        """The block with its query numbers and weights."""
        start, stop = self._row, self._row + block.n_rows
        self._row = stop
        if self._codes is not None:
            if len(self._ends) == 0 or stop > self._ends[-1]:
                raise self._misfit(f"at least {stop}")
            rows = np.arange(start, stop)
            block = replace(
                block, qid=np.searchsorted(self._ends, rows, side="right"), query_index=None
            )
        if self._weight is not None:
            if stop > len(self._weight):
                raise _weight_misfit(len(self._weight), f"at least {stop}")
            block = replace(block, weight=self._weight[start:stop])
        return block

    def finish(self) -> None:
        """Check that nothing is left over after the last row."""
        if self._codes is not None and (len(self._ends) == 0 or self._row != self._ends[-1]):
            raise self._misfit(str(self._row))
        if self._weight is not None and self._row != len(self._weight):
            raise _weight_misfit(len(self._weight), str(self._row))

    def _misfit(self, rows: str) -> SchemaError:
        total = int(self._ends[-1]) if len(self._ends) else 0
        return SchemaError(
            f"group sizes add up to {total} rows but the data has {rows}",
            fix="Pass sizes in row order, one per query, for all files together",
        )


def apply_side_data(data: Dataset, options: ReadOptions) -> Dataset:
    """Attach group sizes and weights to a whole data set."""
    side = SideData(options)
    data = side.attach(data)
    side.finish()
    return data


def _weight_misfit(count: int, rows: str) -> SchemaError:
    return SchemaError(f"{count} weights for {rows} rows", fix="Pass one weight per row")


def _group_sizes(group: Any) -> NDArray[np.int64]:
    if _is_path(group):
        return _read_numbers(group, integer=True).astype(np.int64)
    items = list(group)
    if items and all(_is_path(item) for item in items):
        return np.concatenate([_group_sizes(item) for item in items])
    sizes = np.asarray(items) if items else np.zeros(0, dtype=np.int64)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise SchemaError("group must be a list of row counts", fix="Pass non-negative integers")
    return sizes.astype(np.int64)


def _weights(weight: Any) -> NDArray[np.float64]:
    from rankine.data.dataset import check_weight

    if _is_path(weight):
        values = _read_numbers(weight, integer=False)
    else:
        values = np.asarray(weight, dtype=np.float64)
    return check_weight(values, len(values))


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _read_numbers(path: str | os.PathLike[str], *, integer: bool) -> NDArray[Any]:
    """One number a line, as LightGBM and XGBoost write them."""
    file = os.fspath(path)
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise DataError(
            f"cannot be opened: {error.strerror}", file=file, fix="Check the path"
        ) from error
    values = np.empty(len(lines), dtype=np.int64 if integer else np.float64)
    for k, line in enumerate(lines):
        text = line.strip()
        good = text.isdigit() and len(text) < 19 if integer else _is_decimal(text)
        if not good:
            raise ParseError(
                f"{text[:40]!r} is not a {'row count' if integer else 'weight'}",
                file=file,
                line=k + 1,
                column=1,
                fix="Write one number a line",
            )
        values[k] = int(text) if integer else float(text)
    return values


def _is_decimal(text: bytes) -> bool:
    return bool(text) and set(text) <= set(b"0123456789.eE+-") and _parses(text)


def _parses(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
