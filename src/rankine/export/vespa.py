"""Export to Vespa: a rank profile, with weights in the expression or in a constant tensor.

In the expression form, a feature's name must be a rank feature (``bm25(title)``) or a function of
the schema. In the tensor form, names are labels of a mapped dimension and may be any text;
documents hold their features in an attribute of type ``tensor(f{})``.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from rankine.core.errors import ExportError, ParameterError
from rankine.core.safe_text import printable
from rankine.export.features import (
    RawFeature,
    column_names,
    float32_terms,
    raw_features,
    require_linear,
)
from rankine.export.registry import Export, ExportOptions, register
from rankine.export.trees import Node, build_trees, write_tree
from rankine.model import LinearModel
from rankine.model.tables import Tables, find_tables

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_ARGUMENT = r'(?:[A-Za-z0-9_@.$-]+|"[A-Za-z0-9_@.:/ -]*")'
# name, name(arguments), with an optional .output
_RANK_FEATURE = re.compile(
    rf"{_IDENTIFIER}(?:\({_ARGUMENT}(?:, ?{_ARGUMENT})*\))?(?:\.[A-Za-z0-9_]+)*\Z"
)


@register("vespa", options=("form",))
def export_vespa(model: LinearModel, options: ExportOptions) -> Export:
    """Write a Vespa rank profile; in the tensor form, its constant and the profile."""
    if options.form not in (None, "expression", "tensor"):
        raise ParameterError(
            f"{options.form!r} is not a form", fix="Choose expression or tensor", parameter="form"
        )
    name = options.versioned(model)
    tables = find_tables(model)
    if tables is not None:
        if options.form == "tensor":
            raise ParameterError(
                "tables can only be written as an expression",
                fix="Use the form expression",
                parameter="form",
            )
        return Export(_expression_profile(name, _table_terms(tables)))
    features = raw_features(model, "Vespa")
    require_linear(model, "Vespa", raw=True)
    terms = float32_terms(model, "Vespa")
    if options.form == "tensor":
        cells = {term.name: float(term.weight) for term in terms}
        constant = json.dumps({"cells": cells}, indent=1).encode() + b"\n"
        return Export(constant, {".profile": _tensor_profile(name)})
    if features is None:
        for term in terms:
            check_rank_feature(term.name, ", or export with --form tensor, where names are labels")
        expressions = {term.name: term.name for term in terms}
    else:
        expressions = {feature.name: _feature_expression(feature) for feature in features}
    return Export(
        _expression_profile(name, [f"{term.weight} * {expressions[term.name]}" for term in terms])
    )


def check_rank_feature(name: str, alternative: str = "") -> None:
    """Raise unless Vespa parses a name as a rank feature or function."""
    if not _RANK_FEATURE.match(name):
        raise ExportError(
            f"{printable(name)!r} is not the name of a Vespa rank feature or function",
            fix=f"Name it as Vespa does (bm25(title), closeness(field,vector)){alternative}",
        )


def _feature_expression(feature: RawFeature) -> str:
    """Write a feature of a raw column, which is an attribute of the documents."""
    if not re.fullmatch(_IDENTIFIER, feature.column):
        raise ExportError(
            f"column {printable(feature.column)!r} cannot be the name of a Vespa attribute",
            fix="Rename it, or export with --form tensor, where names are labels",
        )
    attribute = f"attribute({feature.column})"
    if feature.kind == "number":
        return attribute
    if feature.kind == "value":
        return f"if({attribute} == {_text(feature.value)}, 1, 0)"
    if feature.kind == "missing":
        return f"isNan({attribute})"
    factors = []
    if feature.low is not None:
        factors.append(f"if({attribute} >= {feature.low!r}, 1, 0)")
    if feature.high is not None:
        factors.append(f"if({attribute} < {feature.high!r}, 1, 0)")
    return " * ".join(factors) or f"(1 - isNan({attribute}))"


def _text(value: str) -> str:
    """Write a text as a string of a schema, whose parser also counts the braces within strings."""
    if re.search(r"[^ -~\t\n\f\r]", value):
        # Vespa's configuration passes them on as \u escapes, which its content nodes do not parse.
        raise ExportError(
            f"Vespa's expressions have ASCII texts only, and {printable(value)!r} is a category",
            fix="Rename the categories, or export with --form tensor, where names are labels",
        )
    escaped = re.sub(r'[\t\n\f\r{}"\\]', lambda found: f"\\u{ord(found[0]):04x}", value)
    return f'"{escaped}"'


def _table_terms(tables: Tables) -> list[str]:
    """Write every table as nested ``if``, which first tests whether the value is missing."""
    names = column_names(tables, "Vespa")
    for name in names:
        check_rank_feature(name)

    def write(node: Node, left: Any, right: Any) -> str:
        if left is None:
            return str(np.float32(node.value))
        name = names[node.column]
        condition = f"{name} < {np.float32(node.cut)}"
        if node.cut == -np.inf:
            condition = f"isNan({name})"
        return f"if ({condition}, {left}, {right})"

    terms = [write_tree(tree, write) for tree in build_trees(tables, "Vespa", linear=True)]
    weights = tables.weights[tables.linear_start :].astype(np.float32)
    for weight, j in zip(weights, tables.bins.linear, strict=True):
        terms.append(f"{weight} * {names[j]}")
    return terms


def _expression_profile(name: str, terms: list[str]) -> bytes:
    """Write a rank profile whose first phase adds the terms, one per line."""
    lines = terms[:1] or ["0"]
    for term in terms[1:]:
        lines.append(f"- {term[1:]}" if term[0] == "-" else f"+ {term}")
    body = "\n".join(f"            {line}" for line in lines)
    return (
        f"rank-profile {name} inherits default {{\n"
        "    first-phase {\n"
        "        expression {\n"
        f"{body}\n"
        "        }\n"
        "    }\n"
        "}\n"
    ).encode()


def _tensor_profile(name: str) -> bytes:
    return (
        f"rank-profile {name} inherits default {{\n"
        "    constants {\n"
        f"        constant({name}_w) tensor(f{{}}): file:constants/{name}_w.json\n"
        "    }\n"
        "    first-phase {\n"
        f"        expression: sum(constant({name}_w) * attribute(features))\n"
        "    }\n"
        "}\n"
    ).encode()
