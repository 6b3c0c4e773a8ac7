"""Values of Arrow arrays, checked one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rankine.core.errors import DataError, LimitError, ParseError, SchemaError
from rankine.data.readers.values import (
    BatchLocation,
    RowFaults,
    to_floats,
    to_numbers,
    wrap_arrow_errors,
    writable,
)

LOCATION = BatchLocation("a.parquet", 100, "row group 2", 20)


def test_the_place_of_a_row_survives_a_filter():
    location = LOCATION._replace(rows=np.array([3, 5]))
    error = location.error(1, "x", "bad", "mend it", ParseError)
    assert (type(error), error.file, error.line, error.column) == (
        ParseError,
        "a.parquet",
        106,
        "x",
    )
    assert "row group 2, row 26" in error.reason
    assert location.line_numbers(2).tolist() == [104, 106]
    assert LOCATION.line_numbers(2).tolist() == [101, 102]


def test_bad_rows_are_raised_or_counted():
    values = pa.array([1.0, None, np.inf, 2.0])
    with pytest.raises(SchemaError) as caught:
        to_floats(values, "x", RowFaults(LOCATION, 4, skip=False))
    assert caught.value.line == 102
    faults = RowFaults(LOCATION._replace(n_bad=3, n_excluded=5), 4, skip=True)
    to_floats(values, "x", faults)
    assert faults.bad.tolist() == [False, True, True, False]
    assert faults.read_counts == {"skipped_rows": 5, "excluded_rows": 5}


@pytest.mark.parametrize(
    ("values", "dtype", "n_bad"),
    [
        (pa.array([2**24, 2**24 + 1, -(2**24) - 1]), np.float32, 2),
        (pa.array([2**53, 2**53 + 1, -(2**53) - 1]), np.float64, 2),
        (pa.array([2**53 + 1], pa.uint64()), np.float64, 1),
        (pa.array([1e39, 1e38, np.inf]), np.float32, 1),
        (pa.array([2**31 - 1], pa.int32()), np.float64, 0),
    ],
)
def test_numbers_that_a_float_cannot_hold(values, dtype, n_bad):
    faults = RowFaults(LOCATION, len(values), skip=True)
    to_numbers(values, "x", faults, np.dtype(dtype))
    assert (0 if faults.bad is None else faults.bad.sum()) == n_bad


def test_kernels_get_arrays_that_can_be_written():
    stored = pa.array([1.0, 2.0]).to_numpy()
    assert not stored.flags.writeable
    assert writable(stored).flags.writeable
    own = np.zeros(2)
    assert writable(own) is own


@pytest.mark.parametrize(
    ("cause", "error_type"),
    [
        (pa.ArrowInvalid("bad"), SchemaError),
        (MemoryError("much"), LimitError),
        (OSError("gone"), SchemaError),
        (ParseError("typed"), ParseError),
    ],
)
def test_errors_of_arrow_are_typed(cause, error_type):
    with pytest.raises(DataError) as caught, wrap_arrow_errors("the schema", SchemaError):
        raise cause
    assert type(caught.value) is error_type
