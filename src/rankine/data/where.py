"""Choose rows by a condition, and skip files and row groups in which no row can meet it.

A condition is evaluated row by row, with the values that label formulas see. Skipping is a matter
of speed alone: ``may_hold`` bounds the condition by the smallest and largest value of each column,
and is False only where ``condition_mask`` is False for all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as pt

from rankine.core.errors import SchemaError
from rankine.data.dataset import CodedText
from rankine.data.expressions import Expression, TextTest, differ
from rankine.data.readers.raw_values import to_category_texts, to_numbers_or_nan
from rankine.data.readers.values import BatchLocation, RowFaults, is_text


def condition_mask(
    condition: Expression, batch: pa.RecordBatch, faults: RowFaults
) -> NDArray[np.bool_]:
    """Return the rows of a batch that meet a condition."""
    numbers: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    for name in condition.columns:
        array = batch.column(name)
        if name in condition.text_columns:
            texts[name] = _coded(to_category_texts(array, name, faults))
        if name not in condition.text_columns or name in condition.time_columns:
            numbers[name] = _column_numbers(array, name, condition, faults)
    return np.asarray(condition(numbers, texts) != 0)


def _coded(array: pa.Array) -> CodedText:
    if not pt.is_dictionary(array.type):
        array = array.dictionary_encode()
    texts = ["" if text is None else text for text in array.dictionary.to_pylist()] + [""]
    codes = array.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
    return CodedText(codes.astype(np.int32), texts)


def _column_numbers(
    array: pa.Array, name: str, condition: Expression, faults: RowFaults
) -> NDArray[np.float64]:
    data_type = array.type
    if pt.is_dictionary(data_type):
        data_type = data_type.value_type
    fix = None
    if name in condition.time_columns:
        # The unit of plain numbers is unknown.
        if not (pt.is_temporal(data_type) or pt.is_null(data_type) or is_text(data_type)):
            fix = f"Compare it with a number: {name} >= 20261101"
    elif is_text(data_type):
        fix = f"Compare it with a text: {name} == 'text'"
    if fix is not None:
        raise SchemaError(
            f"column {name!r} is of type {array.type}, which {condition.text!r} cannot compare",
            parameter="where",
            fix=fix,
            column=name,
        )
    return to_numbers_or_nan(array, name, faults)


# ------------------------------------------------------------------------------ skipping
class Bounds(NamedTuple):
    """Smallest and largest value of a column: numbers, or texts as UTF-8.

    Attributes
    ----------
    is_exact
        Whether both are values of the column. Bounds of texts may have been cut.
    """

    low: Any
    high: Any
    is_exact: bool = True


class ColumnBounds(NamedTuple):
    """Bounds of columns, as numbers and as texts.

    A column in which all values are missing has the bounds None; a column whose bounds are unknown
    is absent.
    """

    numbers: Mapping[str, Bounds | None]
    texts: Mapping[str, Bounds | None]


class _Truth(NamedTuple):
    """Whether a condition can be true, and whether it can be false, of a row within bounds."""

    can_hold: bool
    can_fail: bool


_UNBOUNDED = Bounds(-math.inf, math.inf, is_exact=False)
_CAN_HOLD: dict[Any, Callable[[Bounds, Bounds], bool]] = {
    np.less: lambda a, b: a.low < b.high,
    np.less_equal: lambda a, b: a.low <= b.high,
    np.greater: lambda a, b: a.high > b.low,
    np.greater_equal: lambda a, b: a.high >= b.low,
    np.equal: lambda a, b: a.low <= b.high and b.low <= a.high,
    differ: lambda a, b: not a.low == a.high == b.low == b.high,
}


def may_hold(condition: Expression, bounds: ColumnBounds) -> bool:
    """Whether a condition can be true of a row whose columns are within bounds."""
    return _truth(condition.tree, bounds).can_hold


def _truth(tree: Any, bounds: ColumnBounds) -> _Truth:
    if isinstance(tree, TextTest):
        return _text_truth(tree, bounds.texts)
    operation, *operands = tree
    if operation is np.logical_not:
        inner = _truth(operands[0], bounds)
        return _Truth(inner.can_fail, inner.can_hold)
    if operation in (np.logical_and, np.logical_or):
        left, right = (_truth(operand, bounds) for operand in operands)
        if operation is np.logical_and:
            return _Truth(left.can_hold and right.can_hold, left.can_fail or right.can_fail)
        return _Truth(left.can_hold or right.can_hold, left.can_fail and right.can_fail)
    left_bounds, right_bounds = (_number_bounds(operand, bounds.numbers) for operand in operands)
    # Missing values are not counted, and a comparison with one fails.
    if left_bounds is None or right_bounds is None:
        return _Truth(can_hold=False, can_fail=True)
    return _Truth(_CAN_HOLD[operation](left_bounds, right_bounds), can_fail=True)


def _number_bounds(tree: Any, bounds: Mapping[str, Bounds | None]) -> Bounds | None:
    if isinstance(tree, float):
        return Bounds(tree, tree)
    if isinstance(tree, str):
        return bounds.get(tree, _UNBOUNDED)
    return _UNBOUNDED  # arithmetic


def _text_truth(test: TextTest, bounds: Mapping[str, Bounds | None]) -> _Truth:
    column_bounds = bounds.get(test.column, _UNBOUNDED)
    if column_bounds is None:
        return _Truth(can_hold=False, can_fail=True)
    if column_bounds is _UNBOUNDED:
        return _Truth(can_hold=True, can_fail=True)
    text = test.text.encode()
    can_hold = column_bounds.low <= text <= column_bounds.high
    if not test.is_equal:
        can_hold = not (column_bounds.is_exact and column_bounds.low == column_bounds.high == text)
    return _Truth(can_hold, can_fail=True)


def partition_bounds(condition: Expression, partition: Mapping[str, pa.Scalar]) -> ColumnBounds:
    """Return the values of the Hive columns of a file as bounds of a condition's columns."""
    numbers: dict[str, Bounds | None] = {}
    texts: dict[str, Bounds | None] = {}
    faults = RowFaults(BatchLocation("a partition"), 1, skip=False)
    for name in set(condition.columns) & set(partition):
        array = pa.array([partition[name].as_py()], partition[name].type)
        if name in condition.text_columns:
            codes, values = _coded(to_category_texts(array, name, faults))
            text = values[codes[0]].encode()
            texts[name] = Bounds(text, text) if text else None
        if name not in condition.text_columns or name in condition.time_columns:
            number = _column_numbers(array, name, condition, faults)[0]
            numbers[name] = None if math.isnan(number) else Bounds(number, number)
    return ColumnBounds(numbers, texts)
