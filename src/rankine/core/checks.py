"""Checks of parameters, with the same words everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from rankine.core.errors import ParameterError, SchemaError


def check_positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    if not _is_number(value) or value <= 0:
        raise ParameterError(f"{name}={value!r} is not a positive number", fix=f"Pass {name} > 0")
    return float(value)


def check_not_negative(name: str, value: Any) -> float:
    """A finite number of at least 0."""
    if not _is_number(value) or value < 0:
        raise ParameterError(
            f"{name}={value!r} is not a finite number >= 0", fix=f"Pass {name} >= 0"
        )
    return float(value)


def _is_number(value: Any) -> bool:
    plain = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    return plain and math.isfinite(value)


def check_count(name: str, value: Any) -> int:
    """A whole number of at least 1."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral) or value < 1:
        raise ParameterError(f"{name}={value!r} is not a positive integer", fix=f"Pass {name} >= 1")
    return int(value)


def check_n_passes(n_passes: Any, otherwise: int = 1) -> int:
    """Passes over the data; ``otherwise`` where None leaves it open."""
    return otherwise if n_passes is None else check_count("n_passes", n_passes)


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> str:
    """One of the given words or numbers."""
    if value not in choices:
        shown = ", ".join(map(str, choices))
        raise ParameterError(f"{name}={value!r} is not one of {shown}", fix="Choose one of them")
    return str(value)


def cell_error(
    row: int, column: int, names: Sequence[Any] | None, what: str, fix: str
) -> SchemaError:
    """An error about one value of X, whose column goes by its name where it has one."""
    name = None if names is None or column >= len(names) else str(names[column])
    where = f"X[{row}, {column if name is None else repr(name)}]"
    return SchemaError(f"{where} {what}", fix=fix, column=name)


def reject_sets(**given: Any) -> None:
    """Refuse sets where order means something: each process would order them otherwise."""
    for name, value in given.items():
        if isinstance(value, (set, frozenset)):
            raise ParameterError(
                f"{name} is a set, and sets have no order", fix=f"Pass {name} as a list"
            )


def check_strengths(name: str, value: Any) -> list[float]:
    """One regularisation strength or several, largest first, without repetitions."""
    values = list(value) if isinstance(value, (Sequence, np.ndarray)) else [value]
    if isinstance(value, str) or not values:
        raise ParameterError(
            f"{name}={value!r} is not a number or a list of numbers", fix="Pass positive numbers"
        )
    return sorted({check_positive(name, one) for one in values}, reverse=True)
