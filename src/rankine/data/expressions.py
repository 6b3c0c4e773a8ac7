"""Labels as small formulas over columns: ``clicked + 4*purchased``, ``price*(rating > 3)``.

Parsed by the grammar below, never evaluated as code::

    expression := sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
    sum        := product {("+" | "-") product}
    product    := factor {("*" | "/") factor}
    factor     := number | column | "(" expression ")" | "-" factor

A column is an identifier (letters, digits, ``_``, not starting with a digit) or any name in
backquotes. A comparison is 1 where it holds and 0 elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError, SchemaError

__all__ = ["Expression", "parse_expression"]

MAX_LENGTH = 1000
MAX_DEPTH = 50

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|`(?P<quoted>[^`]+)`"
    r"|(?P<sign><=|>=|==|!=|[-+*/()<>]))"
)

_OPERATIONS: dict[str, Any] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True)
class Expression:
    """A parsed formula.

    Attributes
    ----------
    text
        As it was written.
    columns
        Columns it reads, in order of appearance.
    """

    text: str
    columns: tuple[str, ...]
    _tree: Any

    def __call__(self, columns: Mapping[str, Any]) -> NDArray[np.float64]:
        """Value for every row; a row where it is not finite is an error."""
        numbers = {name: _numbers(columns, name) for name in self.columns}
        n_rows = len(next(iter(numbers.values()))) if numbers else 0
        with np.errstate(all="ignore"):
            values = np.broadcast_to(_evaluate(self._tree, numbers), (n_rows,))
        values = np.array(values, dtype=np.float64)
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise SchemaError(
                f"{self.text!r} is {values[row]} at row {row} of the block",
                fix="Check for division by zero and missing values",
            )
        return values


def parse_expression(text: str) -> Expression:
    """Read a formula; an error points at the place where it breaks.

    Examples
    --------
    >>> gain = parse_expression("clicked + 4*purchased")
    >>> gain({"clicked": [1, 1], "purchased": [0, 1]}).tolist()
    [1.0, 5.0]
    """
    if len(text) > MAX_LENGTH:
        raise ParameterError(
            f"the expression is longer than {MAX_LENGTH} characters", fix="Add a column instead"
        )
    reader = _Reader(text)
    tree = reader.expression(0)
    if reader.sign() is not None or not reader.at_end():
        raise reader.error("an operator")
    if not reader.columns:
        raise ParameterError(f"{text!r} names no column", fix="Name at least one column")
    return Expression(text, tuple(dict.fromkeys(reader.columns)), tree)


class _Reader:
    """Recursive descent over the tokens of one formula."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.columns: list[str] = []

    def expression(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ParameterError("the expression nests too deeply", fix="Add a column instead")
        left = self._sum(depth)
        if (sign := self.sign()) in _COMPARISONS:
            self._take()
            return (sign, left, self._sum(depth))
        return left

    def _sum(self, depth: int) -> Any:
        left = self._product(depth)
        while (sign := self.sign()) in ("+", "-"):
            self._take()
            left = (sign, left, self._product(depth))
        return left

    def _product(self, depth: int) -> Any:
        left = self._factor(depth)
        while (sign := self.sign()) in ("*", "/"):
            self._take()
            left = (sign, left, self._factor(depth))
        return left

    def _factor(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ParameterError("the expression nests too deeply", fix="Add a column instead")
        token = self._peek()
        if token is None:
            raise self.error("a number, a column or '('")
        if (number := token["number"]) is not None:
            self._take()
            return float(number)
        if (name := token["name"] or token["quoted"]) is not None:
            self._take()
            self.columns.append(name)
            return name
        sign = token["sign"]
        if sign == "-":
            self._take()
            return ("-", 0.0, self._factor(depth + 1))
        if sign != "(":
            raise self.error("a number, a column or '('")
        self._take()
        inner = self.expression(depth + 1)
        if self.sign() != ")":
            raise self.error("')'")
        self._take()
        return inner

    def _peek(self) -> re.Match[str] | None:
        return _TOKEN.match(self.text, self.place)

    def _take(self) -> None:
        token = self._peek()
        if token is not None:
            self.place = token.end()

    def sign(self) -> str | None:
        token = self._peek()
        return None if token is None else token["sign"]

    def at_end(self) -> bool:
        return not self.text[self.place :].strip()

    def error(self, expected: str) -> ParameterError:
        rest = self.text[self.place :]
        place = self.place + len(rest) - len(rest.lstrip()) + 1
        return ParameterError(
            f"cannot read {self.text!r}: expected {expected} at character {place}",
            fix="Write it like clicked + 4*purchased",
        )


def _evaluate(tree: Any, numbers: Mapping[str, NDArray[np.float64]]) -> Any:
    if isinstance(tree, float):
        return tree
    if isinstance(tree, str):
        return numbers[tree]
    sign, left, right = tree
    done = _OPERATIONS[sign](_evaluate(left, numbers), _evaluate(right, numbers))
    return np.asarray(done, dtype=np.float64)


def _numbers(columns: Mapping[str, Any], name: str) -> NDArray[np.float64]:
    if name not in columns:
        raise SchemaError(
            f"no column {name!r}; there are {', '.join(sorted(columns))}",
            fix="Name the columns of the data",
            column=name,
        )
    values = np.asarray(columns[name])
    if values.dtype.kind not in "iufb":
        raise SchemaError(
            f"column {name!r} is of type {values.dtype}, not a number",
            fix="Use numeric or boolean columns in a formula",
            column=name,
        )
    return values.astype(np.float64)
