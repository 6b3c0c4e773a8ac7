"""Vespa: a rank profile, its weights as terms of the expression or as a constant tensor.

In the expression form a feature's name must be a rank feature (``bm25(title)``) or a function of
the schema. In the tensor form names are labels of a mapped dimension and may be anything; the
documents hold their features in an attribute of type ``tensor(f{})``.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from rankine.core.errors import ExportError, ParameterError
from rankine.core.safe_text import printable
from rankine.export.registry import (
    Export,
    ExportOptions,
    Node,
    RawFeature,
    WeightTerm,
    build_trees,
    column_names,
    float32_terms,
    nested,
    raw_features,
    register,
    require_linear,
)
from rankine.model import LinearModel
from rankine.model.tables import Tables, find_tables

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_ARGUMENT = r'(?:[A-Za-z0-9_@.$-]+|"[A-Za-z0-9_@.:/ -]*")'
#: name, name(arguments), with an optional .output
_RANK_FEATURE = re.compile(
    rf"{_IDENTIFIER}(?:\({_ARGUMENT}(?:, ?{_ARGUMENT})*\))?(?:\.[A-Za-z0-9_]+)*\Z"
)


@register("vespa")
def vespa(model: LinearModel, options: ExportOptions) -> Export:
    """Write a rank profile, in the tensor form beside its constant."""
    tables = find_tables(model)
    if tables is not None:
        if options.form not in (None, "expression"):
            raise ParameterError(
                f"form={options.form!r}: tables are an expression", fix="Leave out --form"
            )
        return Export(_profile(options.versioned(model), _table_terms(tables)))
    raw = raw_features(model, "Vespa")
    require_linear(model, "Vespa", raw=True)
    terms = float32_terms(model, "Vespa")
    name = options.versioned(model)
    if options.form in (None, "expression"):
        if raw is not None:
            asked = {one.name: _expression(one) for one in raw}
            terms = [WeightTerm(asked[term.name], term.weight) for term in terms]
        return Export(_expression_profile(name, terms, checked=raw is None))
    if options.form == "tensor":
        cells = {term.name: float(term.weight) for term in terms}
        constant = json.dumps({"cells": cells}, indent=1).encode() + b"\n"
        return Export(constant, {".profile": _tensor_profile(name)})
    raise ParameterError(
        f"form={options.form!r} is not one of expression, tensor", fix="Choose one of them"
    )


def check_rank_feature(name: str, otherwise: str = "") -> None:
    """Refuse what Vespa does not read as a rank feature or function."""
    if not _RANK_FEATURE.match(name):
        raise ExportError(
            f"{printable(name)!r} is not the name of a Vespa rank feature or function",
            fix=f"Name it as Vespa does (bm25(title), closeness(field,vector)){otherwise}",
        )


def _expression(one: RawFeature) -> str:
    """A feature of a raw column, which is an attribute of the documents."""
    if not re.fullmatch(_IDENTIFIER, one.column):
        raise ExportError(
            f"column {printable(one.column)!r} cannot be the name of a Vespa attribute",
            fix="Rename it, or export with --form tensor, where names are labels",
        )
    column = f"attribute({one.column})"
    if one.kind == "number":
        return column
    if one.kind == "value":
        return f"if({column} == {json.dumps(one.value)}, 1, 0)"
    if one.kind == "missing":
        return f"isNan({column})"
    low = [] if one.low is None else [f"if({column} >= {one.low!r}, 1, 0)"]
    high = [] if one.high is None else [f"if({column} < {one.high!r}, 1, 0)"]
    return " * ".join([*low, *high]) or f"(1 - isNan({column}))"


def _table_terms(tables: Tables) -> list[str]:
    """A nest of ``if`` for every table, which asks first whether the value is missing."""
    names = column_names(tables, "Vespa")
    for name in names:
        check_rank_feature(name)

    def write(node: Node, left: Any, right: Any) -> str:
        if left is None:
            return str(np.float32(node.value))
        name = names[node.column]
        asks = f"isNan({name})" if node.cut == -np.inf else f"{name} < {np.float32(node.cut)}"
        return f"if ({asks}, {left}, {right})"

    terms = [nested(tree, write) for tree in build_trees(tables, "Vespa", linear=True)]
    weights = tables.weights[tables.linear_start :].astype(np.float32)
    linear = zip(weights, tables.bins.linear, strict=True)
    return [*terms, *(f"{weight} * {names[j]}" for weight, j in linear)]


def _expression_profile(name: str, terms: list[WeightTerm], *, checked: bool) -> bytes:
    for term in terms if checked else ():
        check_rank_feature(term.name, ", or export with --form tensor, where names are labels")
    return _profile(name, [f"{term.weight} * {term.name}" for term in terms])


def _profile(name: str, terms: list[str]) -> bytes:
    """A rank profile whose first phase adds up the terms, one a line."""
    signed = [f"- {term[1:]}" if term[0] == "-" else f"+ {term}" for term in terms]
    first = terms[0] if terms else "0"
    body = "\n".join(f"            {line}" for line in [first, *signed[1:]])
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
