"""SQL: an expression to ORDER BY, the same text for PostgreSQL, DuckDB and SQLite.

Columns are quoted identifiers, NULL counts as 0, arithmetic is double precision. The sum is a
balanced tree: SQLite allows a depth of 1,000. A table is a CASE, in which NULL is a missing value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankine.core.errors import ExportError, ParameterError
from rankine.core.safe_text import printable
from rankine.core.specs import ListRange, LogColumns
from rankine.export.registry import (
    Export,
    ExportOptions,
    RawFeature,
    column_names,
    named_terms,
    raw_features,
    register,
    require_features,
    require_rule,
)
from rankine.model import LinearModel
from rankine.model.tables import Tables, Test, find_tables

#: PostgreSQL cuts longer identifiers without an error.
_MAX_IDENTIFIER_BYTES = 63


@register("sql")
def sql(model: LinearModel, options: ExportOptions) -> Export:
    """Write a comment and the expression, ready for ``ORDER BY <expression> DESC``."""
    tables, remark = find_tables(model), ""
    scaled = any(isinstance(spec, ListRange) for spec in model.transforms)
    if options.query is not None and not scaled:
        raise ParameterError(
            f"query={options.query!r} names lists to scale within, and this model scales none",
            fix="Leave it out",
        )
    if tables is not None:
        terms = _table_terms(tables)
    else:
        raw = raw_features(model, "SQL")
        require_features(model, "SQL", raw=True)
        require_rule(model, "SQL", ("zero", "mean", "indicator"))
        weights = named_terms(model, "SQL")
        absent, added = _missing_numbers(model)
        _check_identifiers(list(dict.fromkeys(
            [*([one.column for one in raw] if raw is not None else [name for name, _ in weights]),
             *added]
        )))  # fmt: skip
        values = [_number_of(name, absent.get(name, "0")) for name, _ in weights]
        if raw is not None:
            values = [_feature(one, absent) for one in raw]
        over = _over(model, options) if scaled else ""
        terms = [
            _scaled(value, weight, over) if scaled else f"{_double(weight)} * {value}"
            for value, (_, weight) in zip(values, weights, strict=True)
        ]
        terms += [
            f"CASE WHEN {_quoted(name)} IS NULL THEN {number} ELSE 0e0 END"
            for name, number in added.items()
        ]
        if scaled:
            lists = "all rows are one list" if over == "OVER ()" else "each list by itself"
            remark = f"{lists}: window functions stand in ORDER BY and SELECT, not in WHERE"
    text = (
        f"-- {options.versioned(model)}: {len(terms)} terms; "
        "use as: SELECT ... ORDER BY <this expression> DESC\n"
        f"{_balanced(terms)}\n"
    )
    return Export(text.encode(), remark=remark)


def _missing_numbers(model: LinearModel) -> tuple[dict[str, str], dict[str, str]]:
    """Column -> what stands for NULL, where it is not 0; column -> what NULL adds to the score."""
    missing = model.missing
    if missing is None or not missing.columns:
        return {}, {}
    log = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    names = (model.feature_names or ()) if log is None else log.numeric
    numbers = {names[j]: _number(x) for j, x in zip(missing.columns, missing.values, strict=True)}
    return ({}, numbers) if missing.rule == "indicator" else (numbers, {})


def _over(model: LinearModel, options: ExportOptions) -> str:
    """The window of a row's list."""
    query = options.query or dict(model.parameters.get("log", {})).get("query")
    if query is None:
        return "OVER ()"
    _check_identifier(query)
    return f"OVER (PARTITION BY {_quoted(query)})"


def _scaled(value: str, weight: str, over: str) -> str:
    """A weight times a feature divided by its range within the list; 0 where it has none."""
    span = f"MAX({value}) {over} * 0.5e0 - MIN({value}) {over} * 0.5e0"
    return f"COALESCE({_double(weight)} * ({value} * 0.5e0 / NULLIF({span}, 0)), 0)"


def _feature(one: RawFeature, absent: Mapping[str, str]) -> str:
    """A feature of a raw column as a double."""
    column = _quoted(one.column)
    if one.kind == "number":
        return _number_of(one.column, absent.get(one.column, "0"))
    if one.kind == "value":
        text = one.value.replace("'", "''")
        asks = f"CAST({column} AS TEXT) = '{text}'"
    elif one.kind == "missing":
        asks = f"{column} IS NULL"
    else:
        low = [] if one.low is None else [f"{column} >= {_number(one.low)}"]
        high = [] if one.high is None else [f"{column} < {_number(one.high)}"]
        asks = " AND ".join([*low, *high]) or f"{column} IS NOT NULL"
    return f"CASE WHEN {asks} THEN 1e0 ELSE 0e0 END"


def _double(weight: str) -> str:
    return f"CAST({weight} AS DOUBLE PRECISION)"


def _number_of(name: str, absent: str = "0") -> str:
    return f"CAST(COALESCE({_quoted(name)}, {absent}) AS DOUBLE PRECISION)"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _table_terms(tables: Tables) -> list[str]:
    """A CASE for every curve, a CASE of CASEs for every grid."""
    names = column_names(tables, "SQL")
    _check_identifiers(names)
    axes = {axis.column: axis.cells for axis in tables.grids.axes} if tables.grids else {}
    terms = []
    for term in tables.terms:
        if len(term.columns) == 1:
            (j,) = term.columns
            case = _case(tables, j, None, [_number(v) for v in term.values.tolist()])
        else:
            a, b = term.columns
            table = [list(map(_number, row)) for row in term.values.tolist()]
            rows = [_case(tables, b, axes[b], row) for row in table]
            case = _case(tables, a, axes[a], rows)
        terms.append(f"CAST({case} AS DOUBLE PRECISION)")
    for k, j in enumerate(tables.bins.linear):
        weight = repr(float(tables.weights[tables.linear_start + k]))
        terms.append(f"{_double(weight)} * {_number_of(names[j])}")
    return terms


def _number(value: float) -> str:
    """A literal that every dialect reads as a double."""
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def _case(tables: Tables, j: int, places: Sequence[int] | None, values: list[str]) -> str:
    """The value at the place of column j."""
    column, texts = _quoted(tables.column_name(j)), tables.texts.get(j)
    *tests, other = tables.tests(j, places)

    def asks(test: Test) -> str:
        if test.asks == "missing":
            return f"{column} IS NULL" + ("" if texts is None else f" OR {column} = ''")
        if texts is None:
            return f"{column} {test.asks} {_number(test.cut)}"
        text = texts[int(test.cut)].replace("'", "''")
        return f"CAST({column} AS TEXT) = '{text}'"

    found = [f"WHEN {asks(test)} THEN {values[test.place]}" for test in tests]
    return f"CASE {' '.join(found)} ELSE {values[other.place]} END"


def _check_identifiers(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        _check_identifier(name)
        if seen.setdefault(name.lower(), name) != name:
            raise ExportError(
                f"features {printable(seen[name.lower()])!r} and {printable(name)!r} differ only "
                "in case, and SQLite and DuckDB take them for one column",
                fix="Rename one of them",
            )


def _balanced(terms: list[str]) -> str:
    """``((a + b) + (c + d))``: depth grows with the logarithm of the number of terms."""
    while len(terms) > 1:
        paired = [f"({a}\n + {b})" for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = paired + terms[len(terms) - len(terms) % 2 :]
    return terms[0]


def _check_identifier(name: str) -> None:
    shown = printable(name)
    if not name or "\x00" in name:
        raise ExportError(
            f"feature {shown!r} cannot be the name of a column", fix="Rename the feature"
        )
    if len(name.encode()) > _MAX_IDENTIFIER_BYTES:
        raise ExportError(
            f"feature {shown!r} is longer than {_MAX_IDENTIFIER_BYTES} bytes, where PostgreSQL "
            "cuts identifiers silently",
            fix="Give the feature a shorter name",
        )
