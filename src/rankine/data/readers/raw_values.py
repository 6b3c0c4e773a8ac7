"""Convert Arrow columns of raw logs to categories and numbers, as ``core.column_values`` defines.

Files of every format and frames pass through here, so that the same rows give the same features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as pt

from rankine.core.column_values import CATEGORY_FIX, NUMBER_FIX, category_text, number_of
from rankine.core.errors import SchemaError
from rankine.core.safe_text import printable
from rankine.data.readers.values import RowFaults, is_number, is_text, null_mask, refuse_not_finite

#: Parts of a second that Arrow counts times in.
_PARTS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_DAY = 86400


def to_category_texts(array: pa.Array, name: str, faults: RowFaults) -> pa.Array:
    """Convert a column to the texts of its categories, dictionary-encoded unless it is text."""
    if pt.is_null(array.type):
        return array.cast(pa.string())
    value_type = array.type
    if pt.is_dictionary(array.type):
        value_type = array.type.value_type
    if is_text(value_type):
        return array
    if not (is_number(value_type) or pt.is_decimal(value_type) or pt.is_date(value_type)):
        raise SchemaError(
            f"column {name!r} is of type {array.type}, whose values are no categories",
            fix=CATEGORY_FIX,
            column=name,
        )
    if not pt.is_dictionary(array.type):
        array = array.dictionary_encode()
    if pt.is_integer(value_type):
        texts = array.dictionary.cast(pa.string())
    else:
        texts = pa.array(_convert_distinct(array, category_text, name, CATEGORY_FIX, faults))
    return pa.DictionaryArray.from_arrays(array.indices, texts.cast(pa.string()))


def to_numbers_or_nan(array: pa.Array, name: str, faults: RowFaults) -> NDArray[np.float64]:
    """Convert a column to float64, NaN where a value is missing.

    Times become seconds since 1970-01-01 UTC, whatever their unit and zone.
    """
    values = _to_floats(array, name, faults)
    return refuse_not_finite(values, name, faults, missing=True)


def _to_floats(array: pa.Array, name: str, faults: RowFaults) -> NDArray[np.float64]:
    if pt.is_null(array.type):
        return np.full(len(array), np.nan)
    if is_text(array.type):
        array = array.dictionary_encode()
    if pt.is_dictionary(array.type):
        if is_text(array.type.value_type):
            distinct = _convert_distinct(array, number_of, name, NUMBER_FIX, faults)
            numbers = np.array(distinct, dtype=np.float64)
        else:
            numbers = _to_floats(array.dictionary, name, faults)
        # The last entry stands for missing values.
        codes = pc.fill_null(array.indices, len(numbers)).to_numpy(zero_copy_only=False)
        return np.append(numbers, np.nan)[codes]
    if is_number(array.type):
        stored = pc.fill_null(array, False if pt.is_boolean(array.type) else 0)
        numbers = stored.to_numpy(zero_copy_only=False).astype(np.float64)
    elif pt.is_decimal(array.type):
        # Digits are rounded once, to the nearest number, as in text.
        numbers = array.cast(pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
    elif pt.is_date(array.type):
        days = pc.fill_null(array.cast(pa.date32()).cast(pa.int32()), 0)
        numbers = days.to_numpy().astype(np.float64) * _SECONDS_PER_DAY
    elif pt.is_timestamp(array.type):
        counts = pc.fill_null(array.cast(pa.int64()), 0).to_numpy()
        parts = _PARTS_PER_SECOND[array.type.unit]
        # Whole seconds and the rest apart: nanoseconds have more digits than a float.
        numbers = counts // parts + counts % parts / parts
    else:
        raise SchemaError(
            f"column {name!r} is of type {array.type}, not a number", fix=NUMBER_FIX, column=name
        )
    if array.null_count:
        numbers[null_mask(array)] = np.nan
    return numbers


def _convert_distinct(
    array: pa.DictionaryArray,
    function: Callable[[Any], Any],
    name: str,
    fix: str,
    faults: RowFaults,
) -> list[Any]:
    """Convert the distinct values of a column, and refuse the rows whose value has no result."""
    values = array.dictionary.to_pylist()
    converted: list[Any] = []
    bad = np.zeros(len(values) + 1, dtype=np.bool_)
    for k, value in enumerate(values):
        try:
            converted.append(function(value))
        except (TypeError, ValueError):
            bad[k] = True
            converted.append(function(None))
    if bad.any():
        codes = pc.fill_null(array.indices, len(values)).to_numpy(zero_copy_only=False)

        def reason(row: int) -> str:
            return f"{printable(repr(values[codes[row]]), 40)} in column {name!r} cannot be read"

        faults.refuse(bad[codes], name, reason, fix)
    return converted
