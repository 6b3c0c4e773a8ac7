"""Compute labels from columns: by small formulas (``clicked + 4*purchased``), or by cutting counts.

A formula is parsed by Python's own parser and checked against the list below, never evaluated as
code: numbers, columns, ``+ - * /``, one comparison (``< <= > >= == !=``) at a time, parentheses. A
column is an identifier or any name in backquotes. A comparison is 1 where it holds, 0 elsewhere and
where a value is missing. ``brand == 'acme'`` and ``brand != 'acme'`` compare a column of categories
with a text.

A condition (``date >= 2026-11-01 and not brand == 'acme'``) chooses rows: comparisons joined by
``and``, ``or`` and ``not``. A date or time, quoted or not, is compared with columns of times. A row
meets a formula as a condition if its value is neither 0 nor missing.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import keyword
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.column_values import CATEGORY_FIX, category_text, number_of
from rankine.core.errors import ParameterError, SchemaError

MAX_LENGTH = 1000
MAX_DEPTH = 50

#: A text in quotes, a name in backquotes, or an identifier that is no part of a number.
_NAME = re.compile(
    r"(?<!\w)'([^']*)'(?!\w)|(?<!\w)\"([^\"]*)\"(?!\w)|`([^`]+)`|(?<![\w.])[^\W\d]\w*"
)

#: A date or time of ISO 8601, as conditions name it without quotes.
_TIME = re.compile(
    r"(?<![\w.])\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
    r"(?:Z|[+-]\d{2}:\d{2})?)?(?![\w.])"
)
_OPERATORS = frozenset(("and", "or", "not"))


def differ(left: Any, right: Any) -> Any:
    """Return where two numbers differ; a missing number is neither equal nor different."""
    return np.not_equal(left, right) & (left == left) & (right == right)  # noqa: PLR0124 - NaN


_OPERATIONS: dict[type[ast.AST], Any] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: differ,
}
_COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, differ)
#: Number of rows that ``can_hold`` tries at most.
_MAX_TRIALS = 10_000


class TextTest(NamedTuple):
    """Compares the categories of a column with a text."""

    column: str
    text: str
    is_equal: bool


@dataclass(frozen=True)
class Expression:
    """A parsed formula.

    Attributes
    ----------
    text
        The formula as it was written.
    columns
        Names of its columns, in order of appearance.
    text_columns
        Those of them that are compared with texts; the others are numbers.
    tree
        A number, the name of a column, a ``TextTest``, or an operation and its operands.
    time_columns
        Columns that are compared with a date or time.
    """

    text: str
    columns: tuple[str, ...]
    text_columns: tuple[str, ...]
    tree: Any
    time_columns: tuple[str, ...] = ()

    @property
    def is_column(self) -> bool:
        """Whether the formula is the name of a column."""
        return isinstance(self.tree, str)

    def __call__(
        self, columns: Mapping[str, Any], texts: Mapping[str, Any] | None = None
    ) -> NDArray[np.float64]:
        """Compute the value of every row, which must be finite.

        ``texts`` are the columns to compare with texts, where they differ from ``columns``.
        """
        if texts is None:
            texts = columns
        first = texts if self.columns[0] in self.text_columns else columns
        column = _column(first, self.columns[0])
        n_rows = len(getattr(column, "codes", column))
        # Division by zero is reported below with its row, instead of a warning of NumPy's.
        with np.errstate(all="ignore"):
            values = np.broadcast_to(_evaluate(self.tree, columns, texts), (n_rows,))
        values = np.array(values, dtype=np.float64)
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise SchemaError(
                f"{self.text!r} is {values[row]} at row {row} of the block",
                fix="Check for division by zero and missing values",
            )
        return values

    def holds(self, columns: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return which rows meet the condition: its value is neither 0 nor missing."""
        # The usual condition needs no conversion to numbers and back.
        if isinstance(self.tree, TextTest):
            return _matches(self.tree, columns)
        if self.time_columns:
            times = {name: _to_times(columns, name) for name in self.time_columns}
            columns = {name: times.get(name, columns[name]) for name in self.columns}
        if self._compares_column:
            operation, left, right = self.tree
            sides = [_evaluate(side, columns, columns) for side in (left, right)]
            return np.asarray(operation(*sides))
        with np.errstate(all="ignore"):
            values = np.asarray(_evaluate(self.tree, columns, columns))
        return (values < 0) | (values > 0)

    @cached_property
    def _compares_column(self) -> bool:
        """Whether the formula compares a column with a number or another column."""
        if not isinstance(self.tree, tuple) or self.tree[0] not in _COMPARISONS:
            return False
        return all(isinstance(side, (str, float)) for side in self.tree[1:])

    def can_hold(self) -> bool:
        """Return False if no row can meet the condition, such as ``x > 5 and x < 3``.

        This is decided for comparisons with constants; for other formulas it is assumed True.
        """
        constants: dict[str, set[Any]] = {}
        if not _collect_constants(self.tree, constants):
            return True
        trials: list[list[Any]] = []
        for values in constants.values():
            texts = [value for value in values if isinstance(value, str)]
            numbers = sorted(value for value in values if not isinstance(value, str))
            if texts and numbers:
                return True
            between = [(a + b) / 2 for a, b in itertools.pairwise(numbers)]
            if texts:
                trials.append([*texts, "".join(texts) + "."])  # and a text that is none of them
            else:
                trials.append([numbers[0] - 1, *numbers, *between, numbers[-1] + 1])
        if math.prod(map(len, trials)) > _MAX_TRIALS:
            return True
        # One row for every combination of values that comparisons can tell apart.
        rows = list(itertools.product(*trials))
        columns = {name: [row[k] for row in rows] for k, name in enumerate(constants)}
        return bool(self.holds(columns).any())


def _collect_constants(tree: Any, constants: dict[str, set[Any]]) -> bool:
    """Collect what each column is compared with; False if a column is used in another way."""
    if isinstance(tree, float):
        return True
    if isinstance(tree, TextTest):
        constants.setdefault(tree.column, set()).add(tree.text)
        return True
    if isinstance(tree, str):
        return False
    if tree[0] in _COMPARISONS and {type(side) for side in tree[1:]} == {str, float}:
        name, number = tree[1:]
        if isinstance(name, float):
            name, number = number, name
        constants.setdefault(name, set()).add(number)
        return True
    return all(_collect_constants(side, constants) for side in tree[1:])


def parse_expression(text: str) -> Expression:
    """Parse a formula; an error names the first wrong character.

    Examples
    --------
    >>> gain = parse_expression("clicked + 4*purchased")
    >>> gain({"clicked": [1, 1], "purchased": [0, 1]}).tolist()
    [1.0, 5.0]
    """
    return _parse(_FormulaParser(text))


def parse_condition(text: str, parameter: str = "where") -> Expression:
    """Parse a condition on rows; an error names the first wrong character.

    Examples
    --------
    >>> recent = parse_condition("date >= 2026-11-01 and not brand == 'acme'")
    >>> recent.columns, recent.time_columns, recent.text_columns
    (('date', 'brand'), ('date',), ('brand',))
    """
    return _parse(_ConditionParser(text, parameter))


def _parse(parser: _FormulaParser) -> Expression:
    text = parser.text
    if len(text) > MAX_LENGTH:
        raise ParameterError(
            f"the expression is longer than {MAX_LENGTH} characters",
            parameter=parser.parameter,
            fix="Add a column instead",
        )
    tree = parser.convert(parser.parse(), 0)
    if not parser.columns:
        raise ParameterError(
            f"{text!r} names no column", parameter=parser.parameter, fix="Name at least one column"
        )
    lists = (parser.columns, parser.text_columns, parser.time_columns)
    columns, text_columns, time_columns = (tuple(dict.fromkeys(names)) for names in lists)
    return Expression(text, columns, text_columns, tree, time_columns)


class _FormulaParser:
    """Converts Python's syntax tree to one of floats, column names and (operation, left, right)."""

    pattern = _NAME
    operators: frozenset[str] = frozenset()
    example = "clicked + 4*purchased or (price > 3)*clicked"

    def __init__(self, text: str, parameter: str | None = None) -> None:
        self.text = text
        self.parameter = parameter
        self.columns: list[str] = []
        self.text_columns: list[str] = []
        self.time_columns: list[str] = []
        self._names: dict[str, str] = {}  # of columns, by placeholder
        self._texts: dict[str, str] = {}  # in quotes, by placeholder
        self._times: dict[str, str] = {}  # dates and times without quotes, by placeholder
        self._code = re.sub(self.pattern, self._to_identifier, re.sub(r"\s", " ", text))

    def _to_identifier(self, match: re.Match[str]) -> str:
        """Replace a name that is no identifier of Python by a placeholder of the same length."""
        text, double_quoted, quoted_name = match.groups()
        if text is None:
            text = double_quoted
        name = quoted_name or match[0]
        is_time = match[0][0].isdigit()
        is_identifier = text is None and quoted_name is None and not is_time
        if is_identifier and name in self.operators:
            return name
        if is_identifier and name.isascii() and not keyword.iskeyword(name):
            return name
        # Of the same length, so that positions in errors stay those of the text.
        number = len(self._names) + len(self._texts) + len(self._times)
        placeholder = f"_{number}".ljust(len(match[0]), "_")
        while placeholder in self.text:
            placeholder += "_"
        if is_time:
            self._times[placeholder] = name
        elif text is None:
            self._names[placeholder] = name
        else:
            self._texts[placeholder] = text
        return placeholder

    def parse(self) -> ast.AST:
        """Return Python's syntax tree of the formula."""
        code = self._code.lstrip()
        if "#" in code:  # Python would ignore a comment silently
            raise self._error(code.index("#"))
        try:
            return ast.parse(code, mode="eval").body
        except SyntaxError as error:
            raise self._error(error.offset - 1 if error.offset else len(code)) from None
        # Python's parser fails in these ways on hostile texts.
        except (ValueError, RecursionError, MemoryError):
            raise self._error(0) from None

    def convert(self, node: Any, depth: int) -> Any:
        """Convert a node of Python's syntax tree; refuse what a formula must not hold."""
        if depth > MAX_DEPTH:
            raise ParameterError("the expression nests too deeply", fix="Add a column instead")
        match node:
            case ast.Constant(value=int() | float() as value):
                return self._number(node, value)
            case ast.Compare(
                ops=[ast.Eq() | ast.NotEq() as op],
                left=ast.Name(id=left),
                comparators=[ast.Name(id=right)],
            ) if (left in self._texts) != (right in self._texts):
                if left in self._texts:
                    left, right = right, left
                name = self._names.get(left, left)
                self.columns.append(name)
                self.text_columns.append(name)
                return TextTest(name, self._texts[right], isinstance(op, ast.Eq))
            case ast.Name(id=name) if name not in self._texts:
                self.columns.append(self._names.get(name, name))
                return self.columns[-1]
            # Minus is 0 - x: one form of node less to evaluate.
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return (np.subtract, 0.0, self.convert(inner, depth + 1))
            case ast.BinOp(op=op, right=right) | ast.Compare(ops=[op], comparators=[right]) if (
                type(op) in _OPERATIONS
            ):
                # Chains such as a + b + c nest to the left; they are long, but not deep.
                left = self.convert(node.left, depth)
                return (_OPERATIONS[type(op)], left, self.convert(right, depth + 1))
        raise self._error(self._bad_character(node))

    def _number(self, node: Any, value: float) -> float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self._error(node.col_offset)
        return number

    def _bad_character(self, node: Any) -> int:
        """Return where a node that is no formula starts to be wrong: after its first part."""
        first: Any = next(ast.iter_child_nodes(node), None)
        offset = getattr(first, "end_col_offset", None)
        if isinstance(node, ast.Compare):
            offset = node.comparators[0].end_col_offset
        # Python 3.11 gives the parts of an f-string the place of the whole, later ones their own.
        is_whole = isinstance(node, ast.JoinedStr)
        if is_whole or offset is None or first.col_offset != node.col_offset:
            offset = node.col_offset
        return len(self._code.lstrip().encode()[:offset].decode())  # offsets of ast are in bytes

    def _error(self, position: int) -> ParameterError:
        position += len(self._code) - len(self._code.lstrip())
        following = self.text[position:]
        position += len(following) - len(following.lstrip())
        return ParameterError(
            f"cannot read {self.text!r} at character {position + 1}",
            parameter=self.parameter or "label",
            fix=f"Write it like {self.example}",
        )


class _ConditionParser(_FormulaParser):
    """Converts a condition: comparisons joined by ``and``, ``or`` and ``not``."""

    pattern = re.compile(f"{_TIME.pattern}|{_NAME.pattern}")
    operators = _OPERATORS
    example = "date >= 2026-11-01 and brand == 'acme'"

    def parse(self) -> ast.AST:
        node: Any = super().parse()
        self._require_condition(node)
        return node

    def convert(self, node: Any, depth: int) -> Any:
        """Convert a node of Python's syntax tree; dates become seconds since 1970-01-01 UTC."""
        if depth > MAX_DEPTH:
            return super().convert(node, depth)
        match node:
            case ast.BoolOp(op=op, values=operands):
                for operand in operands:
                    self._require_condition(operand)
                operation = np.logical_and if isinstance(op, ast.And) else np.logical_or
                tree = self.convert(operands[0], depth + 1)
                for operand in operands[1:]:
                    tree = (operation, tree, self.convert(operand, depth + 1))
                return tree
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._require_condition(operand)
                return (np.logical_not, self.convert(operand, depth + 1))
            case ast.Compare(
                ops=[op], left=ast.Name(id=left), comparators=[ast.Name(id=right)]
            ) if type(op) in _OPERATIONS:
                # Equal texts may also be equal times; order exists for times alone.
                texts = self._times
                if not isinstance(op, ast.Eq | ast.NotEq):
                    texts = {**self._texts, **self._times}
                if (left in texts) != (right in texts):
                    sides = (node.left, node.comparators[0])
                    return (_OPERATIONS[type(op)], *map(self._time_or_column, sides))
            case ast.Name(id=name) if name in self._times:
                raise self._error(node.col_offset)
        return super().convert(node, depth)

    def _time_or_column(self, node: Any) -> Any:
        text = self._times.get(node.id) or self._texts.get(node.id)
        if text is None:
            name = str(self.convert(node, 0))
            self.time_columns.append(name)
            return name
        try:
            return number_of(text)
        except (TypeError, ValueError):
            raise self._error(node.col_offset) from None

    def _require_condition(self, node: Any) -> None:
        is_negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        if not is_negation and not isinstance(node, ast.BoolOp | ast.Compare):
            raise self._error(node.col_offset)


def _evaluate(tree: Any, columns: Mapping[str, Any], texts: Mapping[str, Any]) -> Any:
    if isinstance(tree, float):
        return tree
    if isinstance(tree, str):
        return _to_numbers(columns, tree)
    if isinstance(tree, TextTest):
        return _compare_text(tree, texts)
    if len(tree) == 2:
        return tree[0](_evaluate(tree[1], columns, texts))
    operation, left, right = tree
    result = operation(_evaluate(left, columns, texts), _evaluate(right, columns, texts))
    return np.asarray(result, dtype=np.float64)  # comparisons give booleans


def _column(columns: Mapping[str, Any], name: str) -> Any:
    if name not in columns:
        raise SchemaError(
            f"no column {name!r}; there are {', '.join(sorted(columns)) or 'none'}",
            fix="Name the columns of the data",
            column=name,
        )
    return columns[name]


def _compare_text(test: TextTest, columns: Mapping[str, Any]) -> NDArray[np.float64]:
    """Compare categories with a text; a missing category is neither equal nor different."""
    values = _column(columns, test.column)
    if hasattr(values, "codes"):  # each distinct text is compared once
        return _compare_text(test, {test.column: values.texts})[values.codes]
    if hasattr(values, "tolist"):
        values = values.tolist()
    matches = np.zeros(len(values))
    for row, value in enumerate(values):
        text = value
        if type(value) is not str:
            try:
                text = category_text(value)
            except TypeError as error:
                raise SchemaError(
                    f"{value!r} in column {test.column!r} is not a category",
                    fix=CATEGORY_FIX,
                    column=test.column,
                    row=row,
                ) from error
        if text:
            matches[row] = (text == test.text) == test.is_equal
    return matches


def _matches(test: TextTest, columns: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return the rows whose category meets a test; texts in a list are compared fastest."""
    values = _column(columns, test.column)
    is_equality = isinstance(values, list) and test.is_equal and test.text
    if is_equality and set(map(type, values)) == {str}:
        return np.fromiter(map(test.text.__eq__, values), np.bool_, len(values))
    return _compare_text(test, columns) > 0


def _to_times(columns: Mapping[str, Any], name: str) -> NDArray[np.float64]:
    """Return a column of times as seconds since 1970; numbers are such seconds already."""
    values = np.asarray(_column(columns, name))
    try:
        return np.array([number_of(value) for value in values.tolist()], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SchemaError(
            f"column {name!r} holds a value that is no time",
            fix="Use dates and times of ISO 8601",
            column=name,
        ) from error


def _to_numbers(columns: Mapping[str, Any], name: str) -> NDArray[np.float64]:
    values = np.asarray(_column(columns, name))
    if values.dtype.kind == "O":  # numbers among which some are missing
        with contextlib.suppress(TypeError, ValueError):
            values = np.array([number_of(value) for value in values.tolist()])
    if values.dtype.kind not in "iufb":
        raise SchemaError(
            f"column {name!r} is of type {values.dtype}, not a number",
            fix="Use numeric or boolean columns in a formula, or compare it with a text: "
            f"{name} == 'text'",
            column=name,
        )
    return values.astype(np.float64)


def tiers(
    counts: ArrayLike,
    cuts: Sequence[float] | None = None,
    *,
    quantiles: Sequence[float] | None = None,
) -> NDArray[np.float64]:
    """Turn counts (clicks, purchases, views) into grades 0, 1, 2, ...

    The grade of a count c is the number of cuts that it reaches::

        grade(c) = #{k : c >= cuts[k]}

    With ``quantiles`` the first cut is just above zero and the others are quantiles of the
    positive counts, so that rows without any feedback have grade 0 and the quantiles divide the
    rest. Equal quantiles (many rows with the same count) are merged: no grade stays empty.

    Parameters
    ----------
    counts
        Finite numbers >= 0.
    cuts
        Increasing numbers > 0.
    quantiles
        Increasing numbers in (0, 1).

    Returns
    -------
    ndarray of float64
        Labels for ``Dataset.from_arrays``.

    Examples
    --------
    >>> tiers([0, 1, 2, 5, 40], cuts=[1, 5, 20])
    array([0., 1., 1., 2., 3.])
    >>> tiers([0, 0, 1, 1, 2, 9], quantiles=[0.5, 0.9])
    array([0., 0., 1., 1., 2., 2.])
    """
    values = np.asarray(counts, dtype=np.float64)
    if values.ndim != 1:
        raise SchemaError(f"counts have {values.ndim} dimensions", fix="Pass one count per row")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise SchemaError(f"counts[{row}] is {values[row]}", fix="Pass finite counts >= 0")
    if (cuts is None) == (quantiles is None):
        raise ParameterError("give either cuts or quantiles", fix="Pass one of them")
    if cuts is not None:
        thresholds = _check_increasing("cuts", cuts)
    else:
        thresholds = _quantile_cuts(values, quantiles)
    return np.searchsorted(thresholds, values, side="right").astype(np.float64)


def _check_increasing(name: str, numbers: Any) -> NDArray[np.float64]:
    values = np.asarray(numbers, dtype=np.float64)
    is_finite_list = values.ndim == 1 and len(values) > 0 and bool(np.isfinite(values).all())
    if not is_finite_list or (values <= 0).any() or (np.diff(values) <= 0).any():
        raise ParameterError(
            f"{numbers!r} are not increasing positive numbers", parameter=name, fix="Sort them"
        )
    return values


def _quantile_cuts(values: NDArray[np.float64], quantiles: Any) -> NDArray[np.float64]:
    """Return the smallest positive count and the first counts above each quantile."""
    shares = _check_increasing("quantiles", quantiles)
    if shares[-1] >= 1:
        raise ParameterError(
            f"{quantiles!r} reach 1", parameter="quantiles", fix="Pass numbers below 1"
        )
    positive = np.unique(values[values > 0])
    if len(positive) == 0:
        return positive
    quantile_values = np.quantile(values[values > 0], shares, method="inverted_cdf")
    next_larger = np.searchsorted(positive, quantile_values, side="right")
    # No count is above the largest one, so such a cut would leave an empty grade.
    next_larger = next_larger[next_larger < len(positive)]
    return np.unique(np.append(positive[0], positive[next_larger]))
