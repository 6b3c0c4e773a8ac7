"""Export to SQL: an expression for ORDER BY, the same text for PostgreSQL, DuckDB and SQLite.

Columns are quoted identifiers, NULL and NaN count as 0, arithmetic is in double precision. Terms
are added in a balanced tree, because SQLite limits the depth of an expression to 1,000. A table is
a CASE expression, in which NULL and NaN are missing values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rankine.core.errors import ExportError, ParameterError
from rankine.core.safe_text import printable
from rankine.export.features import (
    RawFeature,
    column_names,
    find_log_columns,
    named_terms,
    raw_features,
    require_features,
    require_rule,
    scales_lists,
)
from rankine.export.registry import Export, ExportOptions, register
from rankine.model import LinearModel
from rankine.model.tables import CellTest, Tables, find_tables

#: PostgreSQL cuts longer identifiers without an error.
_MAX_IDENTIFIER_BYTES = 63


@register("sql", options=("query", "probability"))
def export_sql(model: LinearModel, options: ExportOptions) -> Export:
    """Write an SQL expression for ``ORDER BY <expression> DESC``, with a comment."""
    scaled = scales_lists(model)
    if options.query is not None and not scaled and not options.probability:
        raise ParameterError(
            f"{options.query!r} cannot be used: the model does not scale within lists",
            fix="Leave it out",
            parameter="query",
        )
    tables = find_tables(model)
    remark = ""
    if tables is not None:
        terms = _table_terms(tables)
    else:
        window = ""
        if scaled:
            window = _window(model, options)
            lists = "each list separately"
            if window == "OVER ()":
                lists = "all rows as one list"
            remark = (
                f"features are scaled over {lists}; SQL allows window functions in ORDER BY and "
                "SELECT, not in WHERE"
            )
        terms = _linear_terms(model, window)
    text = (
        f"-- {options.versioned(model)}: {len(terms)} terms; "
        "use as: SELECT ... ORDER BY <this expression> DESC\n"
        f"{_balanced_sum(terms)}\n"
    )
    extra_files = {}
    if options.probability:
        extra_files[".probability.sql"] = _probability(model, options).encode()
        remark = remark or "the probability is an expression of the score: use a subquery"
        if _window(model, options) == "OVER ()":
            remark += "; all rows are one list without --query"
    return Export(text.encode(), extra_files, remark)


def _probability(model: LinearModel, options: ExportOptions) -> str:
    """Write the probability of the outcome as an expression of the column ``score``.

    The curve is a CASE over the intervals between its knots.
    """
    spec = model.calibration
    if spec is None:
        raise ExportError(
            "the model has no probabilities: it is not calibrated",
            fix="Run rankine calibrate first, or leave out --probability",
        )
    window = _window(model, options)
    centred = f"(CAST(score AS DOUBLE PRECISION) - AVG(score) {window})"
    knots, logits = spec.scores, spec.logits
    slopes = [
        (logits[k + 1] - logits[k]) / (knots[k + 1] - knots[k]) for k in range(len(knots) - 1)
    ]
    pieces = [(knots[0], logits[0], spec.tails[0], knots[0])]
    pieces += zip(knots[:-1], logits[:-1], slopes, knots[1:], strict=True)
    cases = [
        f"WHEN {centred} <= {_literal(end)} THEN "
        f"{_literal(logit)} + {_literal(slope)} * ({centred} - {_literal(knot)})"
        for knot, logit, slope, end in pieces
    ]
    last = (
        f"{_literal(logits[-1])} + {_literal(spec.tails[1])} * ({centred} - {_literal(knots[-1])})"
    )
    curve = "CASE " + "\n ".join(cases) + f"\n ELSE {last} END"
    factor = ""
    if spec.position is not None:
        _check_identifier(spec.position)
        column = _quoted(spec.position)
        positions = [
            f"WHEN {column} = {k} THEN {_literal(value)}"
            for k, value in enumerate(spec.examination[:-1], 1)
        ]
        last = _literal(spec.examination[-1])
        factor = f"\n * CASE WHEN {column} IS NULL THEN 1e0 {' '.join(positions)} ELSE {last} END"
    return (
        f"-- {options.versioned(model)}: probability of {printable(spec.outcome)}, of a table "
        "with the exported expression as column score\n"
        f"1e0 / (1e0 + EXP(-(\n{curve}))){factor}\n"
    )


def _linear_terms(model: LinearModel, window: str) -> list[str]:
    """Write weight times feature for every weight, and what missing values add."""
    features = raw_features(model, "SQL")
    require_features(model, "SQL", raw=True)
    require_rule(model, "SQL", ("zero", "mean", "indicator"))
    weights = named_terms(model, "SQL")
    replacements, additions = _missing_value_rules(model)
    if features is None:
        columns = [name for name, _ in weights]
        values = [_column_number(name, replacements.get(name, "0")) for name in columns]
    else:
        columns = [feature.column for feature in features]
        log_columns = find_log_columns(model)
        assert log_columns is not None  # noqa: S101 - the model has raw features
        texts = {field.column: field.values for field in log_columns.one_hot}
        values = [_feature_expression(feature, replacements, texts) for feature in features]
    _check_identifiers(dict.fromkeys([*columns, *additions]))
    terms = []
    for value, (_, weight) in zip(values, weights, strict=True):
        if window:
            terms.append(_scaled_term(value, weight, window))
        else:
            terms.append(f"{_double(weight)} * {value}")
    for name, number in additions.items():
        terms.append(f"CASE WHEN {_number_is_missing(name)} THEN {number} ELSE 0e0 END")
    return terms


def _missing_value_rules(model: LinearModel) -> tuple[dict[str, str], dict[str, str]]:
    """Return, by column, what replaces NULL (default: 0) and what NULL adds to the score."""
    missing = model.missing
    if missing is None or not missing.columns:
        return {}, {}
    log_columns = find_log_columns(model)
    names = model.feature_names or ()
    if log_columns is not None:
        names = log_columns.numeric
    numbers = {names[j]: _literal(x) for j, x in zip(missing.columns, missing.values, strict=True)}
    if missing.rule == "indicator":
        return {}, numbers
    return numbers, {}


def _window(model: LinearModel, options: ExportOptions) -> str:
    """Write the window of the list of a row."""
    query = options.query or dict(model.parameters.get("log", {})).get("query")
    if query is None:
        return "OVER ()"
    _check_identifier(query)
    return f"OVER (PARTITION BY {_quoted(query)})"


def _scaled_term(value: str, weight: str, window: str) -> str:
    """Write a weight times a feature divided by its range within the list; 0 for a zero range."""
    # Halves: the range of two large numbers of opposite sign would overflow.
    span = f"MAX({value}) {window} * 0.5e0 - MIN({value}) {window} * 0.5e0"
    return f"COALESCE({_double(weight)} * ({value} * 0.5e0 / NULLIF({span}, 0)), 0)"


def _feature_expression(
    feature: RawFeature, replacements: Mapping[str, str], texts: Mapping[str, Sequence[str]]
) -> str:
    """Write a feature of a raw column as a double."""
    column = _quoted(feature.column)
    if feature.kind == "number":
        return _column_number(feature.column, replacements.get(feature.column, "0"))
    if feature.kind == "value":
        condition = _category_condition(column, feature.value, texts[feature.column])
    elif feature.kind == "missing":
        condition = _number_is_missing(feature.column)
    else:
        bounds = []
        if feature.low is not None:
            bounds.append(f"{_number(feature.column)} >= {_literal(feature.low)}")
        if feature.high is not None:
            bounds.append(f"{_number(feature.column)} < {_literal(feature.high)}")
        if feature.high is None:  # NaN is above every number
            bounds.append(f"NOT ({_number_is_missing(feature.column)})")
        condition = " AND ".join(bounds)
    return f"CASE WHEN {condition} THEN 1e0 ELSE 0e0 END"


def _double(weight: str) -> str:
    return f"CAST({weight} AS DOUBLE PRECISION)"


def _column_number(name: str, replacement: str = "0e0") -> str:
    return f"CASE WHEN {_number_is_missing(name)} THEN {replacement} ELSE {_number(name)} END"


def _number(name: str) -> str:
    return f"CAST({_quoted(name)} AS DOUBLE PRECISION)"


def _number_is_missing(name: str) -> str:
    """Write a test for NULL and NaN, which DuckDB and PostgreSQL sort above infinity."""
    return f"{_quoted(name)} IS NULL OR {_number(name)} > 'infinity'"


def _category_condition(column: str, value: str, values: Sequence[str]) -> str:
    """Write a test for a category of a quoted column.

    ``values`` are all categories of the column, which show how it may be stored: as whole numbers
    of any type, as booleans (1 and 0 in SQLite), or as text and dates.
    """
    text = f"CAST({column} AS TEXT)"
    literal = "'" + value.replace("'", "''") + "'"
    if _are_whole_numbers(values):
        whole = f"CASE WHEN {text} LIKE '%.%' THEN RTRIM(RTRIM({text}, '0'), '.') ELSE {text} END"
        if value == "0":
            literal = "'0', '-0'"
        return f"{whole} IN ({literal})"
    if set(values) <= {"true", "false"}:
        return f"{text} IN ({literal}, '{int(value == 'true')}')"
    return f"{text} = {literal}"


def _category_is_missing(column: str, values: Sequence[str]) -> str:
    """Write a test for NULL and empty text; a column of whole numbers may hold NaN."""
    missing = "''"
    if _are_whole_numbers(values):
        missing = "'', 'nan', 'NaN'"
    return f"{column} IS NULL OR CAST({column} AS TEXT) IN ({missing})"


def _are_whole_numbers(values: Sequence[str]) -> bool:
    return all(re.fullmatch("0|-?[1-9][0-9]*", value) for value in values)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: float) -> str:
    """Write a number that every dialect reads as a double."""
    text = repr(value)
    if "e" in text:
        return text
    return f"{text}e0"


def _table_terms(tables: Tables) -> list[str]:
    """Write a CASE for every curve, nested CASEs for every grid, and the linear columns."""
    names = column_names(tables, "SQL")
    _check_identifiers(names)
    terms = []
    for term in tables.terms:
        if len(term.columns) == 1:
            (j,) = term.columns
            case = _case(tables, j, None, [_literal(value) for value in term.values.tolist()])
        else:
            a, b = term.columns
            rows = [
                _case(tables, b, tables.axis_cells[b], [_literal(value) for value in row])
                for row in term.values.tolist()
            ]
            case = _case(tables, a, tables.axis_cells[a], rows)
        terms.append(f"CAST({case} AS DOUBLE PRECISION)")
    for k, j in enumerate(tables.bins.linear):
        weight = repr(float(tables.weights[tables.linear_start + k]))
        terms.append(f"{_double(weight)} * {_column_number(names[j])}")
    return terms


def _case(tables: Tables, j: int, positions: Sequence[int] | None, values: list[str]) -> str:
    """Write the value at the position of column j in a table."""
    *tests, default = tables.tests(j, positions)
    cases = [f"WHEN {_condition(tables, j, test)} THEN {values[test.position]}" for test in tests]
    return f"CASE {' '.join(cases)} ELSE {values[default.position]} END"


def _condition(tables: Tables, j: int, test: CellTest) -> str:
    name, texts = tables.column_name(j), tables.texts.get(j)
    if texts is None:
        if test.operator == "missing":
            return _number_is_missing(name)
        return f"{_number(name)} {test.operator} {_literal(test.cut)}"
    if test.operator == "missing":
        return _category_is_missing(_quoted(name), texts)
    return _category_condition(_quoted(name), texts[int(test.cut)], texts)


def _balanced_sum(terms: list[str]) -> str:
    """Write ``((a + b) + (c + d))``, whose depth is logarithmic in the number of terms."""
    while len(terms) > 1:
        paired = [f"({a}\n + {b})" for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = paired + terms[len(terms) - len(terms) % 2 :]
    return terms[0]


def _check_identifiers(names: Sequence[str] | Mapping[str, None]) -> None:
    by_lower_case: dict[str, str] = {}
    for name in names:
        _check_identifier(name)
        previous = by_lower_case.setdefault(name.lower(), name)
        if previous != name:
            raise ExportError(
                f"features {printable(previous)!r} and {printable(name)!r} differ only in case, "
                "and SQLite and DuckDB would read the same column for both",
                fix="Rename one of them",
            )


def _check_identifier(name: str) -> None:
    if not name or "\x00" in name:
        raise ExportError(
            f"feature {printable(name)!r} cannot be the name of a column", fix="Rename the feature"
        )
    if len(name.encode()) > _MAX_IDENTIFIER_BYTES:
        raise ExportError(
            f"feature {printable(name)!r} is longer than {_MAX_IDENTIFIER_BYTES} bytes, at which "
            "PostgreSQL cuts identifiers without an error",
            fix="Give the feature a shorter name",
        )
