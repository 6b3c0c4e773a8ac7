"""Numeric Arrow arrays as floats, every value checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as pt

from rankine.core.errors import SchemaError
from rankine.data.dataset import finite
from rankine.data.readers.arrow_types import is_number

if TYPE_CHECKING:
    from rankine.data.readers.row_faults import RowFaults

__all__ = [
    "MISSING_FIX",
    "exact_floats",
    "refuse_not_finite",
    "to_floats",
    "to_numbers",
    "writable",
]

MISSING_FIX = 'Impute such values, or pass missing="zero"'


def to_floats(array: pa.Array, name: str, faults: RowFaults) -> NDArray[np.float64]:
    """A numeric column as finite float64 without nulls."""
    if not is_number(array.type):
        raise SchemaError(
            f"column {name!r} is of type {array.type}, not a number",
            fix="Cast it to float, or name another column",
            file=faults.place.file,
            column=name,
        )
    values = to_numbers(array, name, faults, np.dtype(np.float64))
    return writable(values) if finite(values) else refuse_not_finite(values, name, faults)


def to_numbers(
    array: pa.Array,
    name: str,
    faults: RowFaults,
    dtype: np.dtype[Any],
    *,
    zero: bool = False,
) -> NDArray[Any]:
    """A numeric column as floats, possibly not finite; nulls and inexact integers are refused."""
    if array.null_count:
        if zero:
            faults.missing += array.null_count
        else:
            nulls = pc.is_null(array).to_numpy(zero_copy_only=False)
            faults.refuse(nulls, name, "null value", MISSING_FIX)
        array = pc.fill_null(array, False if pt.is_boolean(array.type) else 0)
    return exact_floats(array.to_numpy(zero_copy_only=False), dtype, name, faults)


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
    elif stored.dtype.kind == "f" and stored.dtype.itemsize > values.dtype.itemsize:
        faults.refuse(
            np.isinf(values) & np.isfinite(stored),
            name,
            lambda row: f"{stored[row]} is too large for {values.dtype}",
            "Read the file as float64, or scale the column down",
        )
    return values


def refuse_not_finite(
    values: NDArray[Any], name: str, faults: RowFaults, *, zero: bool = False
) -> NDArray[Any]:
    """Refuse infinities, and NaN unless it stands for zero."""
    missing = np.isnan(values)
    if zero and missing.any():
        faults.missing += int(missing.sum())
        values = np.where(missing, values.dtype.type(0), values)
    faults.refuse(~np.isfinite(values), name, lambda row: f"value is {values[row]}", MISSING_FIX)
    return values
