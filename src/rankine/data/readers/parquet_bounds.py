"""Read the bounds of columns from the statistics of a Parquet footer.

Bounds that are not certain to hold for all values, or whose unit is unknown, are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as pt

from rankine.data.readers.parquet_guard import Chunk, RowGroup
from rankine.data.readers.raw_values import to_numbers_or_nan
from rankine.data.readers.values import BatchLocation, RowFaults, is_text
from rankine.data.where import Bounds, ColumnBounds

_TIME_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def row_group_bounds(
    group: RowGroup, names: Sequence[str], schema: pa.Schema, parquet_schema: pq.ParquetSchema
) -> ColumnBounds:
    """Return the bounds of columns in a row group, as conditions compare their values."""
    numbers: dict[str, Bounds | None] = {}
    texts: dict[str, Bounds | None] = {}
    for number, chunk in enumerate(group.chunks):
        name = chunk.path[0]
        if len(chunk.path) > 1 or name not in names or not (chunk.minimum and chunk.maximum):
            continue
        data_type = schema.field(name).type
        if pt.is_dictionary(data_type):
            data_type = data_type.value_type
        if is_text(data_type):
            texts[name] = Bounds(chunk.minimum, chunk.maximum, is_exact=False)
            continue
        stored_type = _stored_type(data_type, parquet_schema, number)
        bounds = None if stored_type is None else _decode(chunk, stored_type)
        if bounds is not None:
            numbers[name] = bounds
    return ColumnBounds(numbers, texts)


def _stored_type(
    data_type: pa.DataType, parquet_schema: pq.ParquetSchema, number: int
) -> pa.DataType | None:
    """Return the type of Arrow with the bits that the statistics of a column have."""
    if pt.is_timestamp(data_type):
        # Parquet has no seconds, and its older versions no nanoseconds.
        logical_type = json.loads(parquet_schema.column(number).logical_type.to_json())
        unit = _TIME_UNITS.get(logical_type.get("timeUnit", ""))
        return None if unit is None else pa.timestamp(unit)
    if pt.is_integer(data_type) and data_type.bit_width < 32:
        return pa.int32() if pt.is_signed_integer(data_type) else pa.uint32()
    is_plain = pt.is_integer(data_type) or pt.is_date32(data_type)
    if is_plain or pt.is_float32(data_type) or pt.is_float64(data_type):
        return data_type
    return None


def _decode(chunk: Chunk, stored_type: pa.DataType) -> Bounds | None:
    n_bytes = stored_type.bit_width // 8
    if len(chunk.minimum) != n_bytes or len(chunk.maximum) != n_bytes:
        return None
    pair = pa.Array.from_buffers(
        stored_type, 2, [None, pa.py_buffer(chunk.minimum + chunk.maximum)]
    )
    faults = RowFaults(BatchLocation("statistics"), 2, skip=True)
    low, high = to_numbers_or_nan(pair, chunk.path[0], faults).tolist()
    # NaN and infinities bound nothing.
    if faults.bad is not None or not low <= high:
        return None
    return Bounds(low, high)
