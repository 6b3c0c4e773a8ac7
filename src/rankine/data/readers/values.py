"""Convert the values of Arrow arrays to numbers, and check every one.

A bad row is an error with its location, or all bad rows of a batch are skipped and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as pt

from rankine.core.errors import DataError, FileKindError, LimitError, RankineError, SchemaError
from rankine.core.stores import StoreFile
from rankine.data.dataset import all_finite
from rankine.data.sources import Source


def is_list(data_type: pa.DataType) -> bool:
    """Whether one row of this type is a list whose offsets can be a CSR row pointer."""
    return bool(pt.is_list(data_type) or pt.is_large_list(data_type))


def is_number(data_type: pa.DataType) -> bool:
    """Whether this is an integer, float or boolean type; decimals would be rounded."""
    return bool(pt.is_integer(data_type) or pt.is_floating(data_type) or pt.is_boolean(data_type))


def is_text(data_type: pa.DataType) -> bool:
    """Whether this is any of Arrow's string types."""
    return bool(
        pt.is_string(data_type) or pt.is_large_string(data_type) or pt.is_string_view(data_type)
    )


@contextmanager
def wrap_arrow_errors(what: str, error_type: type[DataError] = DataError) -> Iterator[None]:
    """Turn exceptions of Arrow about ``what`` into errors about the file."""
    try:
        yield
    except (pa.ArrowMemoryError, MemoryError) as error:
        raise LimitError(
            f"{what} needs more memory than there is: {first_line(error)}",
            fix="The file is damaged or hostile, or needs smaller row groups",
        ) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        if isinstance(error, RankineError):
            raise
        raise error_type(
            f"{what} cannot be read: {first_line(error)}",
            fix="The file is damaged, or not of this kind; write it again",
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, cut to a readable length."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def open_seekable(source: Source, format_name: str) -> pa.NativeFile:
    """Open a file that is read from its end; refuse pipes."""
    if not source.rereadable:
        raise FileKindError(
            f"{format_name} cannot be read from a pipe, since its index is at the end",
            fix="Save it to a file first",
        )
    if source.filesystem is None:
        return source.open_seekable()
    return ObjectFile(source.open_object(sequential=False), "r")


class ObjectFile(pa.PythonFile):
    """Arrow's file of an object of a store, with the reader of its blocks."""

    def __init__(self, blocks: StoreFile, mode: str) -> None:  # noqa: ARG002 - for Arrow
        super().__init__()
        self.blocks = blocks


class BatchLocation(NamedTuple):
    """Where a batch is in its file."""

    file: str
    first_row: int = 0
    #: Name of the part that holds the batch, such as "row group 3".
    part: str = ""
    #: Row of the part at which the batch starts.
    part_row: int = 0
    #: Position of each row in the batch as it was stored, where rows were left out; else None.
    rows: NDArray[np.int64] | None = None
    #: Number of rows that do not meet the condition on rows, here and since the last batch.
    n_excluded: int = 0
    #: Number of rows of which the condition cannot be read.
    n_bad: int = 0

    def error(
        self,
        row: int,
        column: str,
        reason: str,
        fix: str,
        error_type: type[DataError] = SchemaError,
    ) -> DataError:
        """Build the error about a row of the batch; ``line`` is the row's number from 1."""
        if self.rows is not None:
            row = int(self.rows[row])
        if self.part:
            reason = f"{reason} ({self.part}, row {self.part_row + row + 1} of it)"
        return error_type(
            reason, fix=fix, file=self.file, line=self.first_row + row + 1, column=column
        )

    def line_numbers(self, n_rows: int) -> NDArray[np.int64]:
        """Return the number of each row in its file, from 1."""
        rows = np.arange(n_rows) if self.rows is None else self.rows
        return rows + (self.first_row + 1)


class RowFaults:
    """Collects the bad rows of one batch.

    With ``skip`` bad rows are marked and counted, otherwise the first one is raised.
    """

    def __init__(self, location: BatchLocation, n_rows: int, *, skip: bool) -> None:
        self.location = location
        self.skip = skip
        self.n_rows = n_rows
        #: Mask of the bad rows; None while there are none.
        self.bad: NDArray[np.bool_] | None = None
        self.missing = 0

    def refuse(
        self,
        bad: NDArray[Any],
        column: str,
        reason: str | Callable[[int], str],
        fix: str,
        error_type: type[DataError] = SchemaError,
    ) -> None:
        """Refuse the rows where ``bad`` is true; a function makes the reason of a row."""
        if not bad.any():
            return
        if not self.skip:
            row = int(np.argmax(bad))
            text = reason if isinstance(reason, str) else reason(row)
            raise self.location.error(row, column, text, fix, error_type)
        self.bad = bad.copy() if self.bad is None else self.bad | bad

    @property
    def read_counts(self) -> dict[str, int]:
        """Counters for ``Dataset.read_counts``."""
        skipped = self.location.n_bad
        if self.bad is not None:
            skipped += int(self.bad.sum())
        counts = {
            "skipped_rows": skipped,
            "missing_values": self.missing,
            "excluded_rows": self.location.n_excluded,
        }
        return {name: count for name, count in counts.items() if count}


def to_floats(array: pa.Array, name: str, faults: RowFaults) -> NDArray[np.float64]:
    """Convert a numeric column to finite float64; nulls are refused."""
    if not is_number(array.type):
        raise SchemaError(
            f"column {name!r} is of type {array.type}, not a number",
            fix="Cast it to float, or name another column",
            column=name,
        )
    values = to_numbers(array, name, faults, np.dtype(np.float64))
    return writable(refuse_not_finite(values, name, faults))


def to_numbers(
    array: pa.Array,
    name: str,
    faults: RowFaults,
    dtype: np.dtype[Any],
    *,
    missing: bool = False,
) -> NDArray[Any]:
    """Convert a numeric column to floats, which may be infinite; refuse inexact integers.

    Nulls become NaN where values may be ``missing``, otherwise they are refused.
    """
    nulls = None
    if array.null_count:
        nulls = null_mask(array)
        if not missing:
            faults.refuse(nulls, name, "null value", "Give every row a value")
        array = pc.fill_null(array, False if pt.is_boolean(array.type) else 0)
    values = exact_floats(array.to_numpy(zero_copy_only=False), dtype, name, faults)
    if nulls is not None:  # rows that were refused may hold anything
        values = np.where(nulls, values.dtype.type(np.nan), values)
    return values


def null_mask(array: pa.Array, *, nan_is_null: bool = False) -> NDArray[np.bool_]:
    """Return which values of an array are null."""
    nulls = pc.is_null(array, nan_is_null=nan_is_null)
    return np.asarray(nulls.to_numpy(zero_copy_only=False))


def writable(values: NDArray[Any]) -> NDArray[Any]:
    """Return the array, copied if it is a view of Arrow's read-only memory.

    Numba compiles every kernel again for read-only arrays, which takes far longer than the copy.
    """
    return values if values.flags.writeable else values.copy()


def exact_floats(
    stored: NDArray[Any], dtype: np.dtype[Any], name: str, faults: RowFaults
) -> NDArray[Any]:
    """Convert numbers to floats of ``dtype`` and refuse those that it cannot hold.

    These are integers of too many digits and floats outside its range. float64 values are rounded
    to float32 where the caller chose it.
    """
    with np.errstate(over="ignore"):
        values = stored.astype(dtype, copy=False)
    if stored.dtype.kind in "iu" and stored.dtype.itemsize * 8 > np.finfo(values.dtype).nmant:
        # Every integer up to 2^(mantissa bits + 1) is a float.
        largest_exact = 2 ** (np.finfo(values.dtype).nmant + 1)
        inexact = stored > largest_exact
        if stored.dtype.kind == "i":
            inexact |= stored < -largest_exact
        faults.refuse(
            inexact,
            name,
            lambda row: f"{stored[row]} has more digits than {values.dtype} holds",
            "Scale the column down",
        )
    elif stored.dtype.itemsize > values.dtype.itemsize:
        faults.refuse(
            np.isinf(values) & np.isfinite(stored),
            name,
            lambda row: f"{stored[row]} is too large for {values.dtype}",
            "Read the file as float64, or scale the column down",
        )
    return values


def refuse_not_finite(
    values: NDArray[Any], name: str, faults: RowFaults, *, missing: bool = False
) -> NDArray[Any]:
    """Refuse infinities, and NaN unless values may be ``missing``: then NaN are counted."""
    if all_finite(values):
        return values
    if missing:
        faults.missing += int(np.isnan(values).sum())
        bad = np.isinf(values)
    else:
        bad = ~np.isfinite(values)
    faults.refuse(bad, name, lambda row: f"value is {values[row]}", "Store finite numbers")
    return values
