"""Values of Arrow arrays as numbers, every one checked.

Of the bad rows of a batch the first is an error with its place, or all are skipped and counted.
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
from rankine.data.dataset import finite
from rankine.data.sources import Source


def is_list(kind: pa.DataType) -> bool:
    """Whether one row of this type is a list whose offsets can be a CSR row pointer."""
    return bool(pt.is_list(kind) or pt.is_large_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Integers, floating point numbers and booleans; decimals are not, they would be rounded."""
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind))


def is_text(kind: pa.DataType) -> bool:
    """Any of Arrow's string types."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


@contextmanager
def arrow_errors(what: str, kind: type[DataError] = DataError) -> Iterator[None]:
    """Turn whatever Arrow raises about ``what`` into an error about the file."""
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
        raise kind(
            f"{what} cannot be read: {first_line(error)}",
            fix="The file is damaged, or not of this kind; write it again",
        ) from error


def first_line(error: BaseException) -> str:
    """First line of a message, cut to a readable length."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def open_seekable(source: Source, kind: str) -> pa.NativeFile:
    """Open a file that is read from its end; pipes are refused."""
    if not source.rereadable:
        raise FileKindError(
            f"{kind} cannot be read from a pipe, since its index stands at the end",
            fix="Save it to a file first",
        )
    source.open().close()  # records the stamp of the file looks like, or notices that it changed
    return pa.OSFile(str(source.path), "rb")


class Place(NamedTuple):
    """Where a batch stands in its file."""

    file: str
    first_row: int = 0
    #: Name of the part, such as "row group 3".
    part: str = ""
    part_row: int = 0

    def error(
        self,
        row: int,
        column: str,
        reason: str,
        fix: str,
        kind: type[DataError] = SchemaError,
    ) -> DataError:
        """An error about one row of the batch; ``line`` is the row's number from 1."""
        where = f" ({self.part}, row {self.part_row + row + 1} of it)" if self.part else ""
        return kind(
            f"{reason}{where}",
            fix=fix,
            file=self.file,
            line=self.first_row + row + 1,
            column=column,
        )


class RowFaults:
    """Collects what is wrong with the rows of one batch.

    With ``skip`` a bad row is marked and counted, else the first one is raised.
    """

    def __init__(self, place: Place, n_rows: int, *, skip: bool) -> None:
        self.place = place
        self.skip = skip
        self.n_rows = n_rows
        self.bad: NDArray[np.bool_] | None = None
        self.missing = 0

    def refuse(
        self,
        bad: NDArray[Any],
        column: str,
        reason: str | Callable[[int], str],
        fix: str,
        kind: type[DataError] = SchemaError,
    ) -> None:
        """Refuse the rows where ``bad`` is true."""
        if not bad.any():
            return
        if not self.skip:
            row = int(np.argmax(bad))
            text = reason if isinstance(reason, str) else reason(row)
            raise self.place.error(row, column, text, fix, kind)
        self.bad = bad.copy() if self.bad is None else self.bad | bad

    @property
    def read_counts(self) -> dict[str, int]:
        """Counters for ``Dataset.read_counts``."""
        skipped = 0 if self.bad is None else int(self.bad.sum())
        counts = {"skipped_rows": skipped, "missing_values": self.missing}
        return {name: count for name, count in counts.items() if count}


MISSING_FIX = "Give every row a value"


def to_floats(array: pa.Array, name: str, faults: RowFaults) -> NDArray[np.float64]:
    """A numeric column as finite float64 without nulls."""
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
    """A numeric column as floats, possibly not finite; inexact integers are refused.

    Nulls are NaN where values may be ``missing``, else refused.
    """
    nulls = None
    if array.null_count:
        nulls = pc.is_null(array).to_numpy(zero_copy_only=False)
        if not missing:
            faults.refuse(nulls, name, "null value", MISSING_FIX)
        array = pc.fill_null(array, False if pt.is_boolean(array.type) else 0)
    values = exact_floats(array.to_numpy(zero_copy_only=False), dtype, name, faults)
    if nulls is not None:  # rows that were refused may hold anything
        values = np.where(nulls, values.dtype.type(np.nan), values)
    return values


def writable(values: NDArray[Any]) -> NDArray[Any]:
    """The array, copied if it is a view of Arrow's read-only memory.

    Numba compiles every kernel again for read-only arrays, which costs far more than the copy.
    """
    return values if values.flags.writeable else values.copy()


def exact_floats(
    stored: NDArray[Any], dtype: np.dtype[Any], name: str, faults: RowFaults
) -> NDArray[Any]:
    """Numbers as floats; rows with an integer of too many digits or a too large float are refused.

    float64 values are rounded to float32 when that was asked for; nothing becomes infinite.
    """
    with np.errstate(over="ignore"):
        values = stored.astype(dtype, copy=False)
    if stored.dtype.kind in "iu" and stored.dtype.itemsize * 8 > np.finfo(values.dtype).nmant:
        exact = 2 ** (np.finfo(values.dtype).nmant + 1)
        high = stored > exact
        low = stored < -exact if stored.dtype.kind == "i" else np.zeros_like(high)
        faults.refuse(
            high | low,
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
    """Refuse infinities, and NaN unless values may be ``missing``: then it is counted."""
    if finite(values):
        return values
    absent = np.isnan(values)
    if missing:
        faults.missing += int(absent.sum())
    bad = np.isinf(values) if missing else ~np.isfinite(values)
    faults.refuse(bad, name, lambda row: f"value is {values[row]}", "Store finite numbers")
    return values
