"""SQL: an expression to ORDER BY, the same text for PostgreSQL, DuckDB and SQLite.

Columns are quoted identifiers, NULL counts as 0, arithmetic is double precision. The sum is a
balanced tree: SQLite allows a depth of 1,000. A table is a CASE, in which NULL is a missing value.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankine.core.errors import ExportError
from rankine.core.safe_text import printable
from rankine.export.registry import Export, ExportOptions, named_terms, register, require_plain
from rankine.model import LinearModel
from rankine.model.tables import Tables, Test, tables_of

#: PostgreSQL cuts longer identifiers without an error.
_MAX_IDENTIFIER_BYTES = 63


@register("sql")
def sql(model: LinearModel, options: ExportOptions) -> Export:
    """Write a comment and the expression, ready for ``ORDER BY <expression> DESC``."""
    tables = tables_of(model)
    if tables is not None:
        terms = _table_terms(tables)
    else:
        require_plain(model, "SQL")
        weights = named_terms(model, "SQL")
        _check_identifiers([name for name, _ in weights])
        terms = [_product(name, weight) for name, weight in weights]
    text = (
        f"-- {options.versioned(model)}: {len(terms)} terms; "
        "use as: SELECT ... ORDER BY <this expression> DESC\n"
        f"{_balanced(terms)}\n"
    )
    return Export(text.encode())


def _product(name: str, weight: str) -> str:
    return (
        f"CAST({weight} AS DOUBLE PRECISION) * "
        f"CAST(COALESCE({_quoted(name)}, 0) AS DOUBLE PRECISION)"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _table_terms(tables: Tables) -> list[str]:
    """A CASE for every curve, a CASE of CASEs for every grid."""
    names = tables.bins.names
    if names is None:
        raise ExportError(
            "SQL knows columns by name and this model's have none",
            fix="Train on data with names of columns",
        )
    _check_identifiers(names)
    axes = {axis.column: axis.cells for axis in tables.grids.axes} if tables.grids else {}
    terms = []
    for term in tables.terms:
        if len(term.columns) == 1:
            (j,) = term.columns
            case = _case(names[j], tables.tests(j), [_number(v) for v in term.values.tolist()])
        else:
            a, b = term.columns
            inner = tables.tests(b, axes[b])
            rows = [_case(names[b], inner, list(map(_number, row))) for row in term.values.tolist()]
            case = _case(names[a], tables.tests(a, axes[a]), rows)
        terms.append(f"CAST({case} AS DOUBLE PRECISION)")
    for k, j in enumerate(tables.bins.linear):
        terms.append(_product(names[j], repr(float(tables.weights[tables.linear_start + k]))))
    return terms


def _number(value: float) -> str:
    """A literal that every dialect reads as a double."""
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def _case(name: str, tests: list[Test], values: list[str]) -> str:
    column = _quoted(name)
    asked = [
        f"WHEN {column} IS NULL THEN {values[test.place]}"
        if test.asks == "missing"
        else f"WHEN {column} {test.asks} {_number(test.cut)} THEN {values[test.place]}"
        for test in tests[:-1]
    ]
    return f"CASE {' '.join(asked)} ELSE {values[tests[-1].place]} END"


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
