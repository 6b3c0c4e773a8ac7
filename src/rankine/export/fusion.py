"""Fusions of retrievers in the words of the engines that run hybrid search.

Each retriever's own query stays open (``match_all`` under the run's name): put yours in its place,
in the order of the weights. What an engine does with absent documents, the lowest score and equal
scores is written in ``rankine.core.specs.FUSION_RULES``.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from rankine.core.errors import ExportError, ParameterError
from rankine.core.safe_text import printable
from rankine.core.specs import FUSION_RULES, RunScores
from rankine.export.python import RANK
from rankine.export.registry import Export, ExportOptions, json_bytes, register
from rankine.export.vespa import check_rank_feature
from rankine.model import LinearModel

_WINDOW = 100


class _Parts(NamedTuple):
    """Runs with their weights, the normalisation, and what to know about the difference."""

    names: tuple[str, ...]
    weights: list[float]
    normalization: str
    constant: float
    remark: str


def _parts(model: LinearModel, options: ExportOptions, engine: str) -> _Parts:
    spec = model.transforms[0]
    assert isinstance(spec, RunScores)  # noqa: S101 - the registry asked
    form = options.form or ("rrf" if spec.normalization == "reciprocal_rank" else "linear")
    if form not in ("linear", "rrf"):
        raise ParameterError(f"form={form!r} is not one of linear, rrf", fix="Choose one of them")
    names = model.feature_names
    if names is None:
        raise ExportError("the runs of this fusion have no names", fix="Fuse named runs")
    weights, normalization = model.to_dense().tolist(), spec.normalization
    if form == "rrf" and normalization != "reciprocal_rank":
        weights, normalization = model.parameters.get("rrf_weights"), "reciprocal_rank"
    if weights is None or (form == "linear" and normalization == "reciprocal_rank"):
        raise ExportError(
            f"this fusion was learnt on {spec.normalization} scores and has no form {form!r}",
            fix=f"Fuse again with --normalization, or export the other form than {form}",
        )
    known = FUSION_RULES[engine].normalizations
    if normalization not in known:
        raise ExportError(
            f"{engine} has no normalisation {normalization} ({', '.join(known)})",
            fix=f"Fuse with --engine {engine}",
        )
    remark = ""
    if engine != spec.engine:
        remark = (
            f"learnt by the rules of {spec.engine}; {engine} treats absent documents, the lowest "
            f"score or equal scores in another way: fuse with --engine {engine} to learn by them"
        )
    return _Parts(tuple(names), weights, normalization, spec.rank_constant, remark)


def _constant(parts: _Parts) -> int:
    if parts.constant != int(parts.constant) or parts.constant < 1:
        raise ExportError(
            f"the engine takes a whole rank constant from 1, not {parts.constant:g}",
            fix="Fuse with --rank-constant 60",
        )
    return int(parts.constant)


@register("elasticsearch", fusion=True)
def elasticsearch(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of a search with a ``linear`` or a weighted ``rrf`` retriever."""
    parts = _parts(model, options, "elasticsearch")
    ranks = parts.normalization == "reciprocal_rank"
    normalizer = {"min_max": "minmax", "l2": "l2_norm"}.get(parts.normalization)
    children = [
        {
            "retriever": {"standard": {"query": {"match_all": {}}, "_name": name}},
            "weight": weight,
            **({} if ranks else {"normalizer": normalizer}),
        }
        for name, weight in zip(parts.names, parts.weights, strict=True)
    ]
    body: dict[str, Any] = {"retrievers": children, "rank_window_size": _WINDOW}
    if ranks:
        body["rank_constant"] = _constant(parts)
    retriever = {"retriever": {"rrf" if ranks else "linear": body}}
    return Export(json_bytes(retriever), remark=parts.remark)


@register("opensearch", fusion=True)
def opensearch(model: LinearModel, options: ExportOptions) -> Export:
    """Write a search pipeline, and the hybrid query that it belongs to beside it."""
    parts = _parts(model, options, "opensearch")
    combination: dict[str, Any] = {"technique": "arithmetic_mean"}
    if parts.normalization == "reciprocal_rank":
        combination = {"technique": "rrf", "rank_constant": _constant(parts)}
    combination["parameters"] = {"weights": parts.weights}
    processor: dict[str, Any] = {"score-ranker-processor": {"combination": combination}}
    if parts.normalization != "reciprocal_rank":
        normalization = {"technique": parts.normalization}
        processor = {
            "normalization-processor": {
                "normalization": normalization, "combination": combination,
            }
        }  # fmt: skip
    pipeline = {
        "description": f"Fusion {options.versioned(model)}",
        "phase_results_processors": [processor],
    }
    queries = [{"match_all": {"_name": name}} for name in parts.names]
    query = {"query": {"hybrid": {"queries": queries}}, "size": _WINDOW}
    return Export(json_bytes(pipeline), {".query.json": json_bytes(query)}, parts.remark)


@register("vespa", fusion=True)
def vespa(model: LinearModel, options: ExportOptions) -> Export:
    """Write a rank profile with a ``global-phase``."""
    parts = _parts(model, options, "vespa")
    terms = []
    for name, weight in zip(parts.names, parts.weights, strict=True):
        check_rank_feature(name)
        ranks = parts.normalization == "reciprocal_rank"
        call = (
            f"reciprocal_rank({name}, {parts.constant:g})" if ranks else f"normalize_linear({name})"
        )
        terms.append(f"{weight!r} * {call}")
    body = " +\n            ".join(terms)
    profile = (
        f"rank-profile {options.versioned(model)} inherits default {{\n    global-phase {{\n"
        f"        rerank-count: {_WINDOW}\n        expression {{\n            {body}\n        }}\n"
        "    }\n}\n"
    )
    return Export(profile.encode(), remark=parts.remark)


@register("solr", fusion=True)
def solr(model: LinearModel, options: ExportOptions) -> Export:
    """Write the parameters of a request: a function query over one query per run."""
    parts = _parts(model, options, "solr")
    for name in parts.names:
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or name in ("q", "fl", "fq", "rows"):
            raise ExportError(
                f"{printable(name)!r} cannot be the name of a request parameter of Solr",
                fix="Name runs with letters, digits and underscores",
            )
    terms = [
        f"product({weight!r},scale(query(${name},0),0,1))"
        for name, weight in zip(parts.names, parts.weights, strict=True)
    ]
    params = {"q": f"{{!func}}sum({','.join(terms)})", **dict.fromkeys(parts.names, "*:*")}
    return Export(json_bytes({"params": params}), remark=parts.remark)


_PYTHON = '''
from math import fsum, sqrt


def _normalised(column):
    """Scores of one run within one list; None where it did not return the document."""
    if ABSENT == "zero":
        column = [0.0 if x is None else x for x in column]
    there = [x for x in column if x is not None]
    if not there:
        return [0.0] * len(column)
    if NORMALIZATION == "reciprocal_rank":
        order = sorted((i for i, x in enumerate(column) if x is not None), key=lambda i: -column[i])
        rank = {i: r for r, i in enumerate(order, 1)}
        return [1.0 / (RANK_CONSTANT + rank[i]) if i in rank else 0.0 for i in range(len(column))]
    low, high = min(there), max(there)
    if NORMALIZATION == "l2":
        norm = sqrt(fsum(x * x for x in there)) or 1.0
        return [0.0 if x is None else x / norm for x in column]
    if NORMALIZATION == "min_max":
        if ABSENT == "index":
            low, high = min(low, 0.0), max(high, 0.0)
        if high - low <= TOLERANCE:
            return [0.0 if x is None else x if EQUAL is None else EQUAL for x in column]
        return [0.0 if x is None else (x - low) / (high - low) or FLOOR for x in column]
    if low == high:
        return [0.0 if x is None else EQUAL for x in column]
    mean = fsum(there) / len(there)
    deviation = sqrt(fsum((x - mean) ** 2 for x in there) / (len(there) - 1))
    return [
        0.0 if x is None else (x - mean) / deviation if x > mean else FLOOR for x in column
    ]


def scores(rows):
    """Fused scores of one list; a row lacks the runs that did not return its document."""
    columns = {name: _normalised([row.get(name) for row in rows]) for name in WEIGHTS}
    return [fsum(w * columns[name][i] for name, w in WEIGHTS.items()) for i in range(len(rows))]
'''


@register("python", fusion=True)
def python(model: LinearModel, options: ExportOptions) -> Export:
    """Write a module without dependencies: ``scores(rows)`` and ``rank(rows, k)``."""
    spec = model.transforms[0]
    assert isinstance(spec, RunScores)  # noqa: S101 - the registry asked
    parts = _parts(model, options, spec.engine)
    rules = FUSION_RULES[spec.engine]
    weights = "".join(
        f"    {name!a}: {weight!r},\n"
        for name, weight in zip(parts.names, np.asarray(parts.weights).tolist(), strict=True)
    )
    head = (
        f'"""Fusion of retrievers {options.versioned(model)}, by the rules of {spec.engine}.\n\n'
        f'Exported by rankine from the model with digest {model.digest}.\n"""\n\n'
        f"WEIGHTS = {{\n{weights}}}\n"
        f"NORMALIZATION, RANK_CONSTANT = {parts.normalization!r}, {parts.constant!r}\n"
        f"FLOOR, EQUAL, TOLERANCE = {rules.floor!r}, {rules.equal!r}, {rules.tolerance!r}\n"
        f"ABSENT = {rules.absent!r}\n"
    )
    return Export((head + _PYTHON + RANK).encode("ascii"))
