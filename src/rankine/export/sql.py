"""SQL: an expression to ORDER BY, the same text for PostgreSQL, DuckDB and SQLite.

Columns are quoted identifiers, NULL counts as 0, arithmetic is double precision. The sum is a
balanced tree: SQLite allows a depth of 1,000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankine.core.errors import ExportError
from rankine.core.safe_text import printable
from rankine.export.registry import Export, ExportOptions, named_terms, register, require_plain

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__: list[str] = []

#: PostgreSQL cuts longer identifiers without an error.
_MAX_IDENTIFIER_BYTES = 63


@register("sql")
def sql(model: LinearModel, options: ExportOptions) -> Export:
    """Write a comment and the expression, ready for ``ORDER BY <expression> DESC``."""
    require_plain(model, "SQL")
    terms: list[str] = []
    seen: dict[str, str] = {}
    for name, weight in named_terms(model, "SQL"):
        _check_identifier(name)
        if seen.setdefault(name.lower(), name) != name:
            raise ExportError(
                f"features {printable(seen[name.lower()])!r} and {printable(name)!r} differ only "
                "in case, and SQLite and DuckDB take them for one column",
                fix="Rename one of them",
            )
        quoted = '"' + name.replace('"', '""') + '"'
        terms.append(
            f"CAST({weight} AS DOUBLE PRECISION) * CAST(COALESCE({quoted}, 0) AS DOUBLE PRECISION)"
        )
    text = (
        f"-- {options.versioned(model)}: {len(terms)} weights; "
        "use as: SELECT ... ORDER BY <this expression> DESC\n"
        f"{_balanced(terms)}\n"
    )
    return Export(text.encode())


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
