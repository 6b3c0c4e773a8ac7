"""Vespa: a rank profile, its weights as terms of the expression or as a constant tensor.

In the expression form a feature's name must be a rank feature (``bm25(title)``) or a function of
the schema. In the tensor form names are labels of a mapped dimension and may be anything; the
documents hold their features in an attribute of type ``tensor(f{})``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from rankine.core.errors import ExportError, ParameterError
from rankine.core.safe_text import printable
from rankine.export.registry import Export, ExportOptions, float32_terms, register, require_plain

if TYPE_CHECKING:
    from rankine.export.registry import WeightTerm
    from rankine.model import LinearModel


_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_ARGUMENT = r'(?:[A-Za-z0-9_@.$-]+|"[A-Za-z0-9_@.:/ -]*")'
#: name, name(arguments), with an optional .output
_RANK_FEATURE = re.compile(
    rf"{_IDENTIFIER}(?:\({_ARGUMENT}(?:,{_ARGUMENT})*\))?(?:\.[A-Za-z0-9_]+)*\Z"
)


@register("vespa")
def vespa(model: LinearModel, options: ExportOptions) -> Export:
    """Write a rank profile, in the tensor form beside its constant."""
    require_plain(model, "Vespa")
    terms = float32_terms(model, "Vespa")
    name = options.versioned(model)
    if options.form in (None, "expression"):
        return Export(_expression_profile(name, terms))
    if options.form == "tensor":
        cells = {term.name: float(term.weight) for term in terms}
        constant = json.dumps({"cells": cells}, indent=1).encode() + b"\n"
        return Export(constant, {".profile": _tensor_profile(name)})
    raise ParameterError(
        f"form={options.form!r} is not one of expression, tensor", fix="Choose one of them"
    )


def _expression_profile(name: str, terms: list[WeightTerm]) -> bytes:
    for term in terms:
        if not _RANK_FEATURE.match(term.name):
            raise ExportError(
                f"{printable(term.name)!r} is not the name of a Vespa rank feature or function",
                fix="Name features as Vespa does (bm25(title), attribute(price)), or export with "
                "--form tensor, where names are labels",
            )
    lines = []
    for k, term in enumerate(terms):
        sign, size = ("-", term.weight[1:]) if term.weight[0] == "-" else ("+", term.weight)
        opening = ("-" if sign == "-" else "") if k == 0 else f"{sign} "
        lines.append(f"            {opening}{size} * {term.name}")
    body = "\n".join(lines)
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
