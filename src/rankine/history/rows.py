"""Compute the keys, amounts and times of rows, which is all that the state keeps of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import SchemaError
from rankine.core.safe_text import printable
from rankine.core.specs import History
from rankine.data.expressions import Expression
from rankine.history.declarations import Amount, FeaturePlan, plan_features
from rankine.history.kernels import hash_integers, hash_texts, join_hashes
from rankine.kernels.random import stream_seed
from rankine.transforms.categories import category_texts

#: Seeds of hashes of texts and of integers.
_TEXT, _INTEGER = (stream_seed(0x48495354, kind) for kind in range(2))  # "HIST"
_SCALES = {"s": 10**6, "ms": 10**3, "us": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The year 10,000: a later time is usually milliseconds that were taken for seconds.
_MAX_TIME = 253_402_300_800 * 10**6
#: Larger floats skip integers (see ``category_text``).
_MAX_WHOLE = 10**15


class RowReader:
    """Reads keys and amounts of rows, as history features need them.

    Attributes
    ----------
    plans
        One ``FeaturePlan`` for each feature.
    keys
        Distinct groups of key columns; a row has one hash for each.
    amounts
        Distinct amounts; a row has one number for each.
    key_columns, amount_columns
        Columns that ``read_keys`` and ``read_amounts`` need.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.plans = plan_features(history)
        self.keys = tuple(dict.fromkeys(plan.by for plan in self.plans))
        amounts = {a.text: a for plan in self.plans for a in (plan.first, plan.second) if a}
        self.amounts = tuple(amounts.values())
        self.key_columns = tuple(dict.fromkeys(name for by in self.keys for name in by))
        self.amount_columns = tuple(
            dict.fromkeys(name for plan in self.plans for name in self.columns_of(plan))
        )
        #: Last dictionary of texts of each column, and its hashes: blocks often share one.
        self._last_texts: dict[str, tuple[Any, NDArray[np.uint64]]] = {}

    def columns_of(self, plan: FeaturePlan) -> list[str]:
        """Return the columns that the amounts of a feature are computed from."""
        columns: list[str] = []
        for amount in (plan.first, plan.second):
            if amount is None:
                continue
            for formula in (amount.formula, amount.value, amount.masked_by):
                if formula is not None:
                    columns += formula.columns
            if amount.text == "examination" and self.history.position is not None:
                columns.append(self.history.position)
        return columns

    def read_keys(self, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.int64]:
        """Hash the keys of rows: one row for each group of key columns; 0 where one is missing.

        A column that is absent is missing everywhere.
        """
        hashes = {name: self._hash_column(columns, name, n_rows) for name in self.key_columns}
        # Features of the same key columns share their hashes.
        keys = np.empty((len(self.keys), n_rows), dtype=np.uint64)
        for k, by in enumerate(self.keys):
            keys[k] = hashes[by[0]]
            for name in by[1:]:
                join_hashes(hashes[name], keys[k])
        return keys.view(np.int64)

    def _hash_column(
        self, columns: Mapping[str, Any], name: str, n_rows: int
    ) -> NDArray[np.uint64]:
        if name not in columns:
            return np.zeros(n_rows, dtype=np.uint64)
        coded = None
        if hasattr(columns, "coded"):
            coded = columns.coded(name)
        if coded is None:
            values = columns[name]
            if _is_constant(values):  # a column that all items of a request share
                return np.repeat(hash_values(values[:1], name), n_rows)
            return hash_values(values, name)
        # Blocks of one file often share their dictionary, whose texts are then hashed once.
        last = self._last_texts.get(name)
        if last is None or last[0] is not coded.texts:
            last = self._last_texts[name] = (coded.texts, _hash_texts(coded.texts))
        return last[1][coded.codes]

    def read_amounts(self, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.float64]:
        """Compute the amounts of rows, one row for each; missing numbers in formulas are 0."""
        amounts = np.empty((len(self.amounts), n_rows))
        numbers = {}
        for name in self.amount_columns:
            numbers[name] = read_numbers(columns, name)
        for k, amount in enumerate(self.amounts):
            amounts[k] = self._amount(amount, numbers, n_rows)
        return amounts

    def _amount(
        self, amount: Amount, numbers: Mapping[str, NDArray[np.float64]], n_rows: int
    ) -> NDArray[np.float64]:
        if amount.text == "examination" and amount.formula is None:
            # Positions beyond the last one that was measured count like the last.
            propensity = np.array(self.history.propensity)
            positions = numbers[str(self.history.position)]
            if not (positions >= 1).all():
                raise SchemaError(
                    "a displayed position is missing or below 1",
                    column=self.history.position,
                    fix="Positions count from 1",
                )
            return propensity[np.minimum(positions.astype(np.int64), len(propensity)) - 1]
        result = np.ones(n_rows)
        if amount.formula is not None:
            result = _evaluate(amount.formula, numbers)
        if amount.value is not None:
            result = result * _evaluate(amount.value, numbers)
        for formula in (amount.value, amount.masked_by):
            if formula is not None:
                missing = [np.isnan(numbers[name]) for name in formula.columns]
                result[np.any(missing, axis=0)] = 0.0
        return result


def _evaluate(
    formula: Expression, numbers: Mapping[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    return formula({name: np.nan_to_num(numbers[name], nan=0.0) for name in formula.columns})


def read_numbers(columns: Mapping[str, Any], name: str) -> NDArray[np.float64]:
    """Return a column as floats, NaN where a value is missing."""
    if name not in columns:
        raise SchemaError(
            f"no column {name!r}, which history features are computed from",
            column=name,
            fix="Add the column, or change the formula",
        )
    values = np.asarray(columns[name])
    if values.dtype == object:
        values = np.array([np.nan if value is None else value for value in values.tolist()])
    if values.dtype.kind not in "iufb":
        raise SchemaError(
            f"column {name!r} is of type {values.dtype}, not a number",
            column=name,
            fix="Use numeric or boolean columns in a formula",
        )
    return values.astype(np.float64)


# ------------------------------------------------------------------------------------------ keys
def _is_constant(values: Any) -> bool:
    """Whether a list contains one value only; 1 and True are two."""
    return (
        isinstance(values, list)
        and len(values) > 1
        and values.count(values[0]) == len(values)
        and len(set(map(type, values))) == 1
    )


def hash_values(values: Any, name: str) -> NDArray[np.uint64]:
    """Hash the values of a column as categories; a missing value is 0.

    Values whose ``category_text`` is equal have one hash: 1, "1" and 1.0, in every format.
    """
    # One long text would make an array of as many characters for each value.
    if isinstance(values, list) and all(type(value) is str for value in values):
        return _hash_texts(values)
    array = np.asarray(values)
    if array.dtype.kind == "i":
        return _hash_integers(array.astype(np.int64, copy=False))
    # Frames turn integers into floats when a value is missing: they keep the hash of the integer.
    if array.dtype.kind == "f" and len(array):
        missing = np.isnan(array)
        numbers = np.where(missing, 0.0, array)
        if ((numbers == np.floor(numbers)) & (np.abs(numbers) < _MAX_WHOLE)).all():
            hashes = _hash_integers(numbers.astype(np.int64))
            hashes[missing] = 0
            return hashes
    return _hash_texts(category_texts(values, name))


def _hash_integers(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    hashes = np.empty(len(values), dtype=np.uint64)
    hash_integers(values, _INTEGER, hashes)
    return np.maximum(hashes, 1, out=hashes)


def _hash_texts(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Hash texts; an empty text is a missing value."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    sizes = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    hashes = np.empty(len(encoded), dtype=np.uint64)
    hash_texts(data, np.cumsum(sizes), _TEXT, _INTEGER, hashes)
    # 0 marks a missing value, so no text has it.
    np.maximum(hashes, 1, out=hashes)
    hashes[sizes == 0] = 0
    return hashes


# ----------------------------------------------------------------------------------------- times
def to_microseconds(
    values: Any, unit: str, column: str, default: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return times as microseconds since the epoch; without ``default`` all must be present.

    Times are timestamps, numbers in a unit, or texts as in requests, since JSON has no timestamps.
    """
    array = np.asarray(values)
    if array.dtype.kind == "M":
        missing = np.isnat(array)
        times = array.astype("datetime64[us]").astype(np.int64)
    elif array.dtype.kind in "iuf":
        missing = ~np.isfinite(array)
        scaled = np.where(missing, 0, array) * _SCALES[unit]
        if array.dtype.kind == "f":
            scaled = np.rint(scaled)
        # Compared as floats, since the product of integers may have wrapped.
        if (np.abs(scaled.astype(np.float64)) >= _MAX_TIME).any():
            raise SchemaError(
                "a time is after the year 9999, or as long before 1970",
                column=column,
                fix="Check time_unit, the unit of times that are numbers: s, ms or us",
            )
        times = scaled.astype(np.int64)
    elif array.dtype.kind == "T":
        missing = array == ""
        times = np.zeros(len(array), dtype=np.int64)
        try:
            times[~missing] = [parse_time(text) for text in array[~missing].tolist()]
        except SchemaError as error:
            raise SchemaError(error.reason, column=column, fix=error.fix) from error
    else:
        raise SchemaError(
            f"times are {array.dtype}",
            column=column,
            fix="Store timestamps, or numbers of seconds since 1970",
        )
    if default is not None:
        return np.where(missing, default, times)
    if missing.any():
        raise SchemaError(
            "a time is missing",
            column=column,
            row=int(np.argmax(missing)),
            fix="Give every row a time",
        )
    return times


def parse_time(value: Any, unit: str = "s") -> int:
    """Return one time as microseconds: a number, or a text such as ``2026-01-31T12:00:00Z``.

    A text without a time zone is in UTC, as in files.

    Examples
    --------
    >>> parse_time("1970-01-01T00:00:01Z"), parse_time(1.5), parse_time(1500, "ms")
    (1000000, 1500000, 1500000)
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            raise SchemaError(
                f"{printable(value, 40)!r} is not a time",
                fix="Write seconds since 1970, or 2026-01-31T12:00:00Z",
            ) from error
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        # Integers throughout: ``timestamp()`` would round microseconds.
        elapsed = moment - _EPOCH
        return (elapsed.days * 86400 + elapsed.seconds) * 10**6 + elapsed.microseconds
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SchemaError(
            f"{printable(repr(value), 40)} is not a time",
            fix="Write seconds since 1970, or 2026-01-31T12:00:00Z",
        )
    return int(to_microseconds(np.array([value]), unit, "time")[0])


def format_time(microseconds: int | None) -> str | None:
    """Return a time as text; None for a state that has read nothing, and after the year 9999.

    Examples
    --------
    >>> format_time(1_000_000)
    '1970-01-01T00:00:01+00:00'
    """
    if microseconds is None or not abs(microseconds) < _MAX_TIME:
        return None
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat()
