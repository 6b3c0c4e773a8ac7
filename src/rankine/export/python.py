"""Export to a Python module without dependencies: ``scores(rows)`` and ``rank(rows, k)``."""

from __future__ import annotations

import inspect
import re

from rankine.core.column_values import category_text, number_of, plain_value
from rankine.export.features import (
    RawFeature,
    find_log_columns,
    raw_features,
    require_features,
    require_rule,
    scales_lists,
)
from rankine.export.registry import Export, ExportOptions, register
from rankine.model import LinearModel
from rankine.model.tables import Tables, find_tables

# The text of exported modules. Generated literals (WEIGHTS, FILLED, ...) precede these functions.

_SCORE = '''

def score(row):
    """Score one dictionary of features: absent ones count as 0, unknown ones are ignored."""
    return fsum(WEIGHTS[name] * value for name, value in row.items() if name in WEIGHTS)


def scores(rows):
    """Score a list of rows, in order."""
    return [score(row) for row in rows]
'''

_SCORE_LISTS = '''

def scores(rows):
    """Score one list of rows, in order. Each feature is divided by its range within the list.

    An absent feature counts as 0; unknown features are ignored.
    """
    half_ranges = {}
    for name in WEIGHTS:
        column = [float(row.get(name, 0.0)) for row in rows]
        if column:
            half_ranges[name] = max(column) * 0.5 - min(column) * 0.5
    return [
        fsum(
            WEIGHTS[name] * (value * 0.5 / half_ranges[name])
            for name, value in row.items()
            if name in WEIGHTS and half_ranges[name] > 0
        )
        for row in rows
    ]
'''

_MISSING = '''

def _is_missing(value):
    return value is None or value != value


def _filled(rows):
    """Replace missing values."""
    replacements = FILLED
    if BY_LIST:
        columns = {name: [row.get(name, 0.0) for row in rows] for name in WEIGHTS}
        replacements = {
            name: min((x for x in column if not _is_missing(x)), default=0.0)
            for name, column in columns.items()
        }
    return [
        {name: replacements.get(name, 0.0) if _is_missing(x) else x for name, x in row.items()}
        for row in rows
    ]


def scores(rows):
    """Score one list of rows, in order; None and NaN are missing values."""
    return [
        fsum([score, *(ADDED[name] for name in ADDED if name in row and _is_missing(row[name]))])
        for score, row in zip(_scores(_filled(rows)), rows)
    ]
'''

_SCORE_TABLES = '''

def _cell(name, value):
    """Return the cell of a value: by order of the cuts, or the category; missing values last."""
    cuts = CUTS[name]
    if name in TEXTS:
        text = category_text(value)
        return TEXTS[name].get(text, len(cuts)) if text else len(cuts) + 1
    number = number_of(value)
    if number != number:
        return len(cuts) + 1
    cell = bisect_right(cuts, number)
    if name in CATEGORIES:
        return cell - 1 if cell and cuts[cell - 1] == number else len(cuts)
    return cell


def score(row):
    """Score one dictionary of columns: an absent one is missing, unknown ones are ignored."""
    cells = {name: _cell(name, row.get(name)) for name in CUTS}
    parts = [CURVES[name][cells[name]] for name in CURVES]
    for a, positions_a, b, positions_b, values in GRIDS:
        parts.append(values[positions_a[cells[a]]][positions_b[cells[b]]])
    parts += [weight * (row.get(name) or 0.0) for name, weight in LINEAR.items()]
    return fsum(parts)


def scores(rows):
    """Score a list of rows, in order."""
    return [score(row) for row in rows]
'''

_FEATURES = '''

def _features(row):
    """Compute features of raw columns: an absent one is missing, unknown ones are ignored."""
    features = {}
    for name, feature in NUMBERS.items():
        number = number_of(row.get(name))
        if number == number:
            features[feature] = number
    for name, values in VALUES.items():
        text = category_text(row.get(name))
        if text in values:
            features[values[text]] = 1.0
    for name, (cuts, cells) in CELLS.items():
        number = number_of(row.get(name))
        cell = bisect_right(cuts, number) if number == number else len(cuts) + 1
        if cell in cells:
            features[cells[cell]] = 1.0
    return features
'''

#: Imports of modules that read raw values.
_RAW_IMPORTS = [
    "from bisect import bisect_right",
    "from datetime import date, datetime, timezone",
    "from decimal import Decimal",
    "from math import fsum",
]

#: The end of every exported module.
RANK_FUNCTION = '''

def rank(rows, k=None):
    """Return the positions of the k best rows, best first; equal scores keep their order."""
    row_scores = scores(rows)
    return sorted(range(len(row_scores)), key=lambda i: -row_scores[i])[:k]
'''


@register("python")
def export_python(model: LinearModel, options: ExportOptions) -> Export:
    """Write a Python module without dependencies; names are ASCII literals."""
    tables = find_tables(model)
    if tables is not None:
        title = f'"""Additive ranking model {options.versioned(model)}, exported by rankine."""'
        body = "\n".join([title, "", *_RAW_IMPORTS, "", *_table_literals(tables)])
        return Export((body + _value_functions() + _SCORE_TABLES + RANK_FUNCTION).encode("ascii"))
    features = raw_features(model, "A Python file")
    require_features(model, "A Python file", raw=True)
    lines = [
        f'"""Linear ranking model {options.versioned(model)}, {model.nnz} weights.',
        "",
        f"Exported by rankine from the model with digest {model.digest}.",
        '"""',
        "",
    ]
    lines += ["from math import fsum"] if features is None else _RAW_IMPORTS
    lines += ["", "WEIGHTS = {"]
    for name, weight in zip(model.weight_names, model.values.tolist(), strict=True):
        lines.append(f"    {name!a}: {weight!r},")
    lines.append("}")
    body = _SCORE_LISTS if scales_lists(model) else _SCORE
    if features is not None:
        require_rule(model, "A Python file of raw columns", ("zero",))
        lines += _raw_literals(model, features)
        # Rows are turned into features at the start of the function that reads them.
        encode = "    rows = [_features(row) for row in rows]\n"
        body = body.replace("    half_ranges =", f"{encode}    half_ranges =")
        body = body.replace("    return fsum(W", "    row = _features(row)\n    return fsum(W")
        body = _value_functions() + _FEATURES + body
    elif model.missing is not None:
        lines += _missing_value_literals(model)
        body = body.replace("def scores(", "def _scores(").replace("def score(", "def _score(")
        body = body.replace("[score(row)", "[_score(row)") + _MISSING
    return Export(("\n".join(lines) + "\n" + body + RANK_FUNCTION).encode("ascii"))


def _value_functions() -> str:
    """Return the source of the definition of raw values."""
    sources = [inspect.getsource(function) for function in (category_text, number_of, plain_value)]
    code = "\n\n".join(sources).replace("value: Any", "value").replace("number: Any", "number")
    code = code.replace(") -> Any:", "):").replace(") -> str:", "):").replace(") -> float:", "):")
    return "\n\n" + re.sub("  # noqa.*", "", code)


def _missing_value_literals(model: LinearModel) -> list[str]:
    """Write what replaces missing values and what they add to the score, as assignments."""
    missing = model.missing
    assert missing is not None  # noqa: S101 - the caller has checked
    names = model.feature_names
    if names is None:
        names = tuple(str(j + model.base) for j in range(model.n_features))
    numbers = {names[j]: x for j, x in zip(missing.columns, missing.values, strict=True)}
    literals = {"FILLED": numbers, "ADDED": {}}
    if missing.rule == "indicator":
        literals = {"ADDED": numbers, "FILLED": {}}
    lines = [f"{name} = {value!a}" for name, value in literals.items()]
    return [*lines, f"BY_LIST = {missing.rule == 'query_min'}"]


def _raw_literals(model: LinearModel, features: list[RawFeature]) -> list[str]:
    """Write the features of every column, as assignments."""
    log_columns = find_log_columns(model)
    assert log_columns is not None  # noqa: S101 - the model has raw features
    cuts = {binned.column: list(binned.cuts) for binned in log_columns.binned}
    numbers = {f.column: f.name for f in features if f.kind == "number"}
    values: dict[str, dict[str, str]] = {}
    cells: dict[str, dict[int, str]] = {}
    for feature in features:
        column = feature.column
        if feature.kind == "value":
            values.setdefault(column, {})[feature.value] = feature.name
        elif feature.kind == "missing":
            cells.setdefault(column, {})[len(cuts[column]) + 1] = feature.name
        elif feature.kind == "cell":
            number = len(cuts[column])
            if feature.high is not None:
                number = cuts[column].index(feature.high)
            cells.setdefault(column, {})[number] = feature.name
    cells_by_column = {column: (cuts[column], names) for column, names in cells.items()}
    return [f"NUMBERS = {numbers!a}", f"VALUES = {values!a}", f"CELLS = {cells_by_column!a}"]


def _table_literals(tables: Tables) -> list[str]:
    """Write cuts, categories, curves, grids and linear weights, as assignments."""
    bins, name = tables.bins, tables.column_name
    curves, cuts, grids, linear = {}, {}, [], {}
    for term in tables.terms:
        first = term.columns[0]
        cuts[name(first)] = list(bins.cuts[first])
        if len(term.columns) == 1:
            curves[name(first)] = term.values.tolist()
        else:
            second = term.columns[1]
            sides = [(name(j), list(tables.axis_cells[j])) for j in (first, second)]
            grids.append((*sides[0], *sides[1], term.values.tolist()))
    for k, j in enumerate(bins.linear):
        linear[name(j)] = float(tables.weights[tables.linear_start + k])
    texts = {}
    for j in tables.texts:
        texts[name(j)] = {tables.value(j, k): k for k in range(len(bins.cuts[j]))}
    return [
        f"CUTS = {cuts!a}",
        f"TEXTS = {texts!a}",
        f"CATEGORIES = {[name(j) for j in bins.unordered]!a}",
        f"CURVES = {curves!a}",
        f"GRIDS = {grids!a}",
        f"LINEAR = {linear!a}",
    ]
