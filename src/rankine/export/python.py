"""One Python file without dependencies: ``score(row)``, ``scores(rows)``, ``rank(rows, k)``."""

from __future__ import annotations

from rankine.core.specs import ListRange, LogColumns
from rankine.export.registry import (
    Export,
    ExportOptions,
    RawFeature,
    raw_features,
    register,
    require_features,
    require_rule,
)
from rankine.model import LinearModel
from rankine.model.tables import Tables, find_tables

_SCORE = '''

def score(row):
    """Score of one dictionary of features; an absent feature counts as 0, others are ignored."""
    return fsum(WEIGHTS[name] * value for name, value in row.items() if name in WEIGHTS)


def scores(rows):
    """Scores of a list of rows, in order."""
    return [score(row) for row in rows]
'''

_SCORE_LISTS = '''

def scores(rows):
    """Scores of one list of rows, in order: each feature is divided by its range in the list.

    An absent feature counts as 0; features that the model does not know are ignored.
    """
    halves = {}
    for name in WEIGHTS:
        column = [float(row.get(name, 0.0)) for row in rows]
        if column:
            halves[name] = max(column) * 0.5 - min(column) * 0.5
    return [
        fsum(
            WEIGHTS[name] * (value * 0.5 / halves[name])
            for name, value in row.items()
            if name in WEIGHTS and halves[name] > 0
        )
        for row in rows
    ]
'''

_MISSING = '''

def _is_missing(value):
    return value is None or value != value


def _filled(rows):
    """The rows with what stands for missing values."""
    known = FILLED
    if BY_LIST:
        columns = {name: [row.get(name, 0.0) for row in rows] for name in WEIGHTS}
        known = {
            name: min((x for x in column if not _is_missing(x)), default=0.0)
            for name, column in columns.items()
        }
    return [
        {name: known.get(name, 0.0) if _is_missing(x) else x for name, x in row.items()}
        for row in rows
    ]


def scores(rows):
    """Scores of one list of rows, in order; None and NaN are missing values."""
    return [
        fsum([score, *(ADDED[name] for name in ADDED if name in row and _is_missing(row[name]))])
        for score, row in zip(_scores(_filled(rows)), rows)
    ]
'''

_SCORE_TABLES = '''

def _place(name, value):
    """Cell of a value: by order of the cuts, or the category; missing values stand last."""
    cuts = CUTS[name]
    if value is None or value != value or value == "":
        return len(cuts) + 1
    if name in TEXTS:
        return TEXTS[name].get(str(value), len(cuts))
    place = bisect_right(cuts, value)
    if name in CATEGORIES:
        return place - 1 if place and cuts[place - 1] == value else len(cuts)
    return place


def score(row):
    """Score of one dictionary of columns; an absent column is missing, others are ignored."""
    cells = {name: _place(name, row.get(name)) for name in CUTS}
    parts = [CURVES[name][cells[name]] for name in CURVES]
    for a, places_a, b, places_b, values in GRIDS:
        parts.append(values[places_a[cells[a]]][places_b[cells[b]]])
    parts += [weight * (row.get(name) or 0.0) for name, weight in LINEAR.items()]
    return fsum(parts)


def scores(rows):
    """Scores of a list of rows, in order."""
    return [score(row) for row in rows]
'''

_FEATURES = '''

def _text(value):
    """The text of a category."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _features(row):
    """Features of a dictionary of raw columns; an absent column is missing, others are ignored."""
    found = {}
    for name, feature in NUMBERS.items():
        if row.get(name) is not None and row[name] == row[name]:
            found[feature] = float(row[name])
    for name, values in VALUES.items():
        if _text(row.get(name)) in values:
            found[values[_text(row.get(name))]] = 1.0
    for name, (cuts, cells) in CELLS.items():
        value = row.get(name)
        missing = value is None or value != value
        cell = len(cuts) + 1 if missing else bisect_right(cuts, value)
        if cell in cells:
            found[cells[cell]] = 1.0
    return found
'''

#: The end of every exported module.
RANK = '''

def rank(rows, k=None):
    """Positions of the rows, best first, at most k; equal scores keep their order."""
    found = scores(rows)
    return sorted(range(len(found)), key=lambda i: -found[i])[:k]
'''


@register("python")
def python(model: LinearModel, options: ExportOptions) -> Export:
    """Write the module; names are ASCII literals, whatever they hold."""
    tables = find_tables(model)
    if tables is not None:
        title = f'"""Additive ranking model {options.versioned(model)}, exported by rankine."""'
        head = [title, "", "from bisect import bisect_right", "from math import fsum", ""]
        body = "\n".join([*head, *_table_literals(tables)])
        return Export((body + "\n" + _SCORE_TABLES + RANK).encode("ascii"))
    raw = raw_features(model, "A Python file")
    require_features(model, "A Python file", raw=True)
    lines = [
        f'"""Linear ranking model {options.versioned(model)}, {model.nnz} weights.',
        "",
        f"Exported by rankine from the model with digest {model.digest}.",
        '"""',
        "",
        *([] if raw is None else ["from bisect import bisect_right"]),
        "from math import fsum",
        "",
        "WEIGHTS = {",
        *(
            f"    {name!a}: {weight!r},"
            for name, weight in zip(model.weight_names, model.values.tolist(), strict=True)
        ),
        "}",
    ]
    scaled = any(isinstance(spec, ListRange) for spec in model.transforms)
    body = _SCORE_LISTS if scaled else _SCORE
    missing = model.missing
    if raw is not None:
        require_rule(model, "A Python file of raw columns", ("zero",))
        lines += _raw_literals(model, raw)
        read = "    rows = [_features(row) for row in rows]\n"
        body = body.replace("    halves =", f"{read}    halves =")
        body = body.replace("    return fsum(W", "    row = _features(row)\n    return fsum(W")
        body = _FEATURES + body
    elif missing is not None:
        names = model.feature_names or tuple(str(j + model.base) for j in range(model.n_features))
        numbers = {names[j]: x for j, x in zip(missing.columns, missing.values, strict=True)}
        lines.append(f"{'ADDED' if missing.rule == 'indicator' else 'FILLED'} = {numbers!a}")
        lines.append(f"{'FILLED' if missing.rule == 'indicator' else 'ADDED'} = {{}}")
        lines.append(f"BY_LIST = {missing.rule == 'query_min'}")
        body = body.replace("def scores(", "def _scores(").replace("def score(", "def _score(")
        body = body.replace("[score(row)", "[_score(row)") + _MISSING
    return Export(("\n".join(lines) + "\n" + body + RANK).encode("ascii"))


def _raw_literals(model: LinearModel, raw: list[RawFeature]) -> list[str]:
    """Which features the columns have, as assignments."""
    spec = next(one for one in model.transforms if isinstance(one, LogColumns))
    cuts = {field.column: list(field.cuts) for field in spec.binned}
    numbers = {one.column: one.name for one in raw if one.kind == "number"}
    values: dict[str, dict[str, str]] = {}
    cells: dict[str, dict[int, str]] = {}
    for one in raw:
        if one.kind == "value":
            values.setdefault(one.column, {})[one.value] = one.name
        elif one.kind != "number":
            own = cuts[one.column]
            inner = len(own) if one.high is None else own.index(one.high)
            cell = len(own) + 1 if one.kind == "missing" else inner
            cells.setdefault(one.column, {})[cell] = one.name
    ranges = {column: (cuts[column], found) for column, found in cells.items()}
    return [f"NUMBERS = {numbers!a}", f"VALUES = {values!a}", f"CELLS = {ranges!a}"]


def _table_literals(tables: Tables) -> list[str]:
    """Cuts, categories, curves, grids and linear weights as assignments."""
    bins, name = tables.bins, tables.column_name
    axes = {axis.column: list(axis.cells) for axis in tables.grids.axes} if tables.grids else {}
    curves = {name(t.columns[0]): t.values.tolist() for t in tables.terms if len(t.columns) == 1}
    grids = [
        (name(t.columns[0]), axes[t.columns[0]], name(t.columns[1]), axes[t.columns[1]],
         t.values.tolist())
        for t in tables.terms if len(t.columns) == 2
    ]  # fmt: skip
    linear = {
        name(j): float(tables.weights[tables.linear_start + k]) for k, j in enumerate(bins.linear)
    }
    texts = {
        name(j): {tables.value(j, k): k for k in range(len(bins.cuts[j]))} for j in tables.texts
    }
    cuts = {name(t.columns[0]): list(bins.cuts[t.columns[0]]) for t in tables.terms}
    return [
        f"CUTS = {cuts!a}",
        f"TEXTS = {texts!a}",
        f"CATEGORIES = {[name(j) for j in bins.unordered]!a}",
        f"CURVES = {curves!a}",
        f"GRIDS = {grids!a}",
        f"LINEAR = {linear!a}",
    ]
