"""Checks of parameters that many functions share.

Each check returns the value in the type that the caller needs, or raises ``ParameterError`` with
the parameter's name. The command line prints the option of that name instead, so reasons and fixes
do not repeat it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError, SchemaError

#: Largest count. Sums of counts up to it are exact as floats and do not wrap around as integers.
LARGEST_COUNT = 2**53


def check_positive(name: str, value: Any) -> float:
    """Return a finite number above 0 as a float."""
    if not _is_finite_number(value) or value <= 0:
        raise ParameterError(
            f"{value!r} is not a positive number", parameter=name, fix="Pass a number > 0"
        )
    return float(value)


def check_not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least 0 as a float."""
    if not _is_finite_number(value) or value < 0:
        raise ParameterError(
            f"{value!r} is not a finite number >= 0", parameter=name, fix="Pass a number >= 0"
        )
    return float(value)


def _is_finite_number(value: Any) -> bool:
    # True and False are numbers to Python, but hardly ever meant as such.
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        return False
    return math.isfinite(value)


def check_count(name: str, value: Any) -> int:
    """Return an integer of at least 1 as an int."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral) or value < 1:
        raise ParameterError(
            f"{value!r} is not a positive integer", parameter=name, fix="Pass an integer >= 1"
        )
    if int(value) > LARGEST_COUNT:  # kernels count in 64 bits
        raise ParameterError(
            f"{value!r} is above 2^53", parameter=name, fix="Pass a smaller integer"
        )
    return int(value)


def check_group(sizes: Any) -> NDArray[np.int64]:
    """Return rows per query as int64; refuse all but non-negative integers."""
    counts = np.asarray(sizes)
    is_integer = counts.ndim == 1 and (counts.dtype.kind in "iu" or len(counts) == 0)
    if not is_integer or (counts < 0).any():
        raise SchemaError(
            "not a list of row counts", parameter="group", fix="Pass non-negative integers"
        )
    # As floats, whose sum does not wrap around.
    total = counts.sum(dtype=np.float64)
    if total > LARGEST_COUNT:
        raise SchemaError(
            f"the sizes add up to {total:.3g} rows", parameter="group", fix="Pass rows per query"
        )
    return counts.astype(np.int64)


def check_group_sum(sizes: Any, n_rows: int) -> NDArray[np.int64]:
    """Return rows per query as int64; refuse sizes that do not sum to ``n_rows``."""
    counts = check_group(sizes)
    total = int(counts.sum())
    if total != n_rows:
        raise SchemaError(
            f"the sizes add up to {total} rows but the data has {n_rows}",
            parameter="group",
            fix="Pass sizes in row order, one per query; or pass qid, one id per row",
        )
    return counts


def check_n_passes(n_passes: Any, default: int = 1) -> int:
    """Return the number of passes over the data; None means ``default``."""
    if n_passes is None:
        return default
    return check_count("n_passes", n_passes)


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> str:
    """Return one of ``choices`` as text."""
    if value not in choices:
        raise ParameterError(
            f"{value!r} is not one of {', '.join(map(str, choices))}",
            parameter=name,
            fix="Choose one of them",
        )
    return str(value)


def cell_error(
    row: int,
    column: int,
    names: Sequence[Any] | None,
    reason: str,
    fix: str,
    parameter: str | None = None,
) -> SchemaError:
    """Create the error about one value of X; its column is shown by name if it has one."""
    if names is None or column >= len(names):
        return SchemaError(f"X[{row}, {column}] {reason}", fix=fix, parameter=parameter)
    name = str(names[column])
    return SchemaError(f"X[{row}, {name!r}] {reason}", fix=fix, parameter=parameter, column=name)


def check_list(name: str, value: Any, content: str) -> None:
    """Raise unless a value is a list, tuple or array of what ``content`` names."""
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
        raise ParameterError(
            f"{value!r} is not a list of {content}", parameter=name, fix="Pass a list"
        )


def reject_sets(**parameters: Any) -> None:
    """Raise if a parameter whose order matters is a set: its order differs between processes."""
    for name, value in parameters.items():
        if isinstance(value, (set, frozenset)):
            raise ParameterError(
                "a set has no order", parameter=name, fix="Pass a list, in the order you want"
            )


def check_strengths(name: str, value: Any) -> list[float]:
    """Return one regularisation strength or several, largest first, without repetitions."""
    values = list(value) if isinstance(value, (Sequence, np.ndarray)) else [value]
    if isinstance(value, str) or not values:
        raise ParameterError(
            f"{value!r} is not a number or a list of numbers",
            parameter=name,
            fix="Pass positive numbers",
        )
    return sorted({check_positive(name, strength) for strength in values}, reverse=True)
