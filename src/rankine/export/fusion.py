"""Export fusions of retrievers to engines that run hybrid search.

The query of each retriever is a placeholder (``match_all`` under the run's name): users replace it
by their own, in the order of the weights. ``rankine.core.specs.FUSION_RULES`` states how each
engine treats absent documents, the lowest score and equal scores.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from rankine.core.errors import ExportError, ParameterError
from rankine.core.safe_text import printable
from rankine.core.specs import FUSION_RULES, RunScores
from rankine.export.python import RANK_FUNCTION
from rankine.export.registry import Export, ExportOptions, json_bytes, register
from rankine.export.vespa import check_rank_feature
from rankine.model import LinearModel

#: Number of documents of each retriever that are fused.
_WINDOW = 100


#: First version of an engine whose RRF has a weight for each run.
_WEIGHTED_RRF_SINCE = {"elasticsearch": "Elasticsearch 9.2", "opensearch": "OpenSearch 3.1"}


class _Fusion(NamedTuple):
    """Runs with their weights and normalisation; ``remark``: where the engine's rules differ."""

    names: tuple[str, ...]
    weights: list[float]
    normalization: str
    rank_constant: float
    remark: str

    @property
    def uses_ranks(self) -> bool:
        return self.normalization == "reciprocal_rank"


def _read_fusion(model: LinearModel, options: ExportOptions, engine: str) -> _Fusion:
    """Read the runs and weights of a model in the form of the options."""
    spec = _run_scores(model)
    form = options.form
    if form is None:
        form = "rrf" if spec.normalization == "reciprocal_rank" else "linear"
    if form not in ("linear", "rrf"):
        raise ParameterError(
            f"{form!r} is not a form", fix="Choose linear or rrf", parameter="form"
        )
    names = model.feature_names
    if names is None:
        raise ExportError("the runs of this fusion have no names", fix="Fuse named runs")
    weights, normalization = model.to_dense().tolist(), spec.normalization
    if form == "rrf" and normalization != "reciprocal_rank":
        weights, normalization = model.parameters.get("rrf_weights"), "reciprocal_rank"
    if weights is None or (form == "linear" and normalization == "reciprocal_rank"):
        raise ExportError(
            f"this fusion was learnt on {spec.normalization} scores and has no form {form!r}",
            fix=f"Fuse again with --normalization, or export another form than {form}",
        )
    supported = FUSION_RULES[engine].normalizations
    if normalization not in supported:
        raise ExportError(
            f"{engine} has no normalisation {normalization}, only {', '.join(supported)}",
            fix=f"Fuse with --engine {engine}",
        )
    remarks = []
    version = _WEIGHTED_RRF_SINCE.get(engine)
    if normalization == "reciprocal_rank" and version is not None:
        remarks.append(f"weights of RRF need {version} or newer; older versions refuse them")
    if engine != spec.engine:
        remarks.append(
            f"the fusion was learnt by the rules of {spec.engine}; {engine} treats absent "
            "documents, the lowest score or equal scores differently: fuse with --engine "
            f"{engine} to learn by its rules"
        )
    remark = ". ".join(remarks)
    return _Fusion(tuple(names), weights, normalization, spec.rank_constant, remark)


def _run_scores(model: LinearModel) -> RunScores:
    spec = model.transforms[0]
    assert isinstance(spec, RunScores)  # noqa: S101 - only fusions are exported here
    return spec


def _whole_constant(fusion: _Fusion) -> int:
    if fusion.rank_constant != int(fusion.rank_constant) or fusion.rank_constant < 1:
        raise ExportError(
            f"the engine needs an integer rank constant of at least 1, not "
            f"{fusion.rank_constant:g}",
            fix="Fuse with --rank-constant 60",
        )
    return int(fusion.rank_constant)


@register("elasticsearch", fusion=True, options=("form",))
def export_elasticsearch_fusion(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of a search with a ``linear`` or a weighted ``rrf`` retriever."""
    fusion = _read_fusion(model, options, "elasticsearch")
    normalizer = {"min_max": "minmax", "l2": "l2_norm"}.get(fusion.normalization)
    children = []
    for name, weight in zip(fusion.names, fusion.weights, strict=True):
        standard = {"query": {"match_all": {}}, "_name": name}
        child: dict[str, Any] = {"retriever": {"standard": standard}, "weight": weight}
        if not fusion.uses_ranks:
            child["normalizer"] = normalizer
        children.append(child)
    body: dict[str, Any] = {"retrievers": children, "rank_window_size": _WINDOW}
    retriever = "linear"
    if fusion.uses_ranks:
        retriever = "rrf"
        body["rank_constant"] = _whole_constant(fusion)
    return Export(json_bytes({"retriever": {retriever: body}}), remark=fusion.remark)


@register("opensearch", fusion=True, options=("form",))
def export_opensearch_fusion(model: LinearModel, options: ExportOptions) -> Export:
    """Write a search pipeline and, in a second file, a hybrid query that uses it."""
    fusion = _read_fusion(model, options, "opensearch")
    weights = {"weights": fusion.weights}
    processor: dict[str, Any]
    if fusion.uses_ranks:
        combination = {
            "technique": "rrf",
            "rank_constant": _whole_constant(fusion),
            "parameters": weights,
        }
        processor = {"score-ranker-processor": {"combination": combination}}
    else:
        normalization = {"technique": fusion.normalization}
        combination = {"technique": "arithmetic_mean", "parameters": weights}
        processor = {
            "normalization-processor": {
                "normalization": normalization, "combination": combination,
            }
        }  # fmt: skip
    pipeline = {
        "description": f"Fusion {options.versioned(model)}",
        "phase_results_processors": [processor],
    }
    queries = [{"match_all": {"_name": name}} for name in fusion.names]
    query = {"query": {"hybrid": {"queries": queries}}, "size": _WINDOW}
    return Export(json_bytes(pipeline), {".query.json": json_bytes(query)}, fusion.remark)


@register("vespa", fusion=True, options=("form",))
def export_vespa_fusion(model: LinearModel, options: ExportOptions) -> Export:
    """Write a rank profile with a ``global-phase``."""
    fusion = _read_fusion(model, options, "vespa")
    terms = []
    for name, weight in zip(fusion.names, fusion.weights, strict=True):
        check_rank_feature(name)
        call = f"normalize_linear({name})"
        if fusion.uses_ranks:
            call = f"reciprocal_rank({name}, {fusion.rank_constant:g})"
        terms.append(f"{weight!r} * {call}")
    body = " +\n            ".join(terms)
    profile = (
        f"rank-profile {options.versioned(model)} inherits default {{\n    global-phase {{\n"
        f"        rerank-count: {_WINDOW}\n        expression {{\n            {body}\n        }}\n"
        "    }\n}\n"
    )
    return Export(profile.encode(), remark=fusion.remark)


@register("solr", fusion=True, options=("form",))
def export_solr_fusion(model: LinearModel, options: ExportOptions) -> Export:
    """Write the parameters of a request: a function query over one query per run."""
    fusion = _read_fusion(model, options, "solr")
    for name in fusion.names:
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or name in ("q", "fl", "fq", "rows"):
            raise ExportError(
                f"{printable(name)!r} cannot be the name of a request parameter of Solr",
                fix="Name runs with letters, digits and underscores",
            )
    # scale() takes its range over documents that have a value: with def(), all have one.
    terms = [
        f"product({weight!r},scale(def(query(${name}),0),0,1))"
        for name, weight in zip(fusion.names, fusion.weights, strict=True)
    ]
    params = {"q": f"{{!func}}sum({','.join(terms)})", **dict.fromkeys(fusion.names, "*:*")}
    return Export(json_bytes({"params": params}), remark=fusion.remark)


_PYTHON = '''
from math import fsum, sqrt


def _normalised(column):
    """Normalise the scores of one run within one list; None: the document was not returned."""
    if ABSENT == "zero":
        column = [0.0 if x is None else x for x in column]
    present = [x for x in column if x is not None]
    if not present:
        return [0.0] * len(column)
    if NORMALIZATION == "reciprocal_rank":
        order = sorted((i for i, x in enumerate(column) if x is not None), key=lambda i: -column[i])
        rank = {i: r for r, i in enumerate(order, 1)}
        return [1.0 / (RANK_CONSTANT + rank[i]) if i in rank else 0.0 for i in range(len(column))]
    low, high = min(present), max(present)
    if NORMALIZATION == "l2":
        norm = sqrt(fsum(x * x for x in present)) or 1.0
        return [0.0 if x is None else x / norm for x in column]
    if NORMALIZATION == "min_max":
        if ABSENT == "index":
            low, high = min(low, 0.0), max(high, 0.0)
        if high - low <= TOLERANCE:
            return [0.0 if x is None else x if EQUAL is None else EQUAL for x in column]
        return [0.0 if x is None else (x - low) / (high - low) or FLOOR for x in column]
    if low == high:
        return [0.0 if x is None else EQUAL for x in column]
    mean = fsum(present) / len(present)
    deviation = sqrt(fsum((x - mean) ** 2 for x in present) / (len(present) - 1))
    return [
        0.0 if x is None else (x - mean) / deviation if x > mean else FLOOR for x in column
    ]


def scores(rows):
    """Fuse the scores of one list; a row lacks the runs that did not return its document."""
    columns = {name: _normalised([row.get(name) for row in rows]) for name in WEIGHTS}
    return [fsum(w * columns[name][i] for name, w in WEIGHTS.items()) for i in range(len(rows))]
'''


@register("python", fusion=True, options=("form",))
def export_python_fusion(model: LinearModel, options: ExportOptions) -> Export:
    """Write a module without dependencies: ``scores(rows)`` and ``rank(rows, k)``."""
    engine = _run_scores(model).engine
    fusion = _read_fusion(model, options, engine)
    rules = FUSION_RULES[engine]
    weights = "".join(
        f"    {name!a}: {weight!r},\n"
        for name, weight in zip(fusion.names, fusion.weights, strict=True)
    )
    head = (
        f'"""Fusion of retrievers {options.versioned(model)}, by the rules of {engine}.\n\n'
        f'Exported by rankine from the model with digest {model.digest}.\n"""\n\n'
        f"WEIGHTS = {{\n{weights}}}\n"
        f"NORMALIZATION, RANK_CONSTANT = {fusion.normalization!r}, {fusion.rank_constant!r}\n"
        f"FLOOR, EQUAL, TOLERANCE = {rules.floor!r}, {rules.equal!r}, {rules.tolerance!r}\n"
        f"ABSENT = {rules.absent!r}\n"
    )
    return Export((head + _PYTHON + RANK_FUNCTION).encode("ascii"))
