"""Export to a script of Elasticsearch and OpenSearch, which needs no plugin.

The script is a Lucene expression over numeric, boolean and date fields, in double precision. A
search sorts by it, because these engines refuse negative scores.
"""

from __future__ import annotations

import numpy as np

from rankine.core.errors import ExportError
from rankine.core.safe_text import printable
from rankine.export.features import (
    RawFeature,
    column_names,
    named_terms,
    raw_features,
    require_linear,
)
from rankine.export.registry import Export, ExportOptions, json_bytes, register
from rankine.export.trees import Node, build_trees, write_tree
from rankine.model import LinearModel
from rankine.model.tables import find_tables

#: Longest script that the engines compile by default (script.max_size_in_bytes).
MAX_BYTES = 65_535


@register("script")
def export_script(model: LinearModel, options: ExportOptions) -> Export:
    """Write a search of Elasticsearch and OpenSearch that sorts by a script."""
    target = "A script of Elasticsearch"
    tables = find_tables(model)
    if tables is not None:
        names = column_names(tables, target)
        trees = build_trees(tables, target, linear=True)
        terms = [write_tree(tree, lambda *node: _condition(names, *node)) for tree in trees]
        weights = tables.weights[tables.linear_start :].tolist()
        for weight, j in zip(weights, tables.bins.linear, strict=True):
            terms.append(f"{weight!r} * {_value(names[j])}")
    else:
        features = raw_features(model, target)
        require_linear(model, target, raw=True, rules=("zero",))
        named = named_terms(model, target)
        if features is None:
            features = [RawFeature(term.name, term.name, "number") for term in named]
        terms = [
            _feature_term(feature, term.weight, target)
            for feature, term in zip(features, named, strict=True)
        ]
    source = " + ".join(terms)
    n_bytes = len(source.encode())
    if n_bytes > MAX_BYTES:
        raise ExportError(
            f"the script has {n_bytes:,} bytes, and the engine compiles {MAX_BYTES:,} at most",
            fix="Train with fewer bins and pairs, or export to elasticsearch, opensearch or eland",
        )
    script = {"lang": "expression", "source": source}
    search = {
        "query": {"match_all": {}},
        "sort": [{"_script": {"type": "number", "order": "desc", "script": script}}],
    }
    return Export(
        json_bytes(search), remark="replace the query by yours; every document it finds is scored"
    )


def _field(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"doc['{escaped}']"


def _value(name: str) -> str:
    """Write the value of a field; 0 if the document does not have it."""
    return f"{_field(name)}.value"


def _condition(names: tuple[str, ...], node: Node, left: str | None, right: str | None) -> str:
    if left is None or right is None:
        return str(np.float32(node.value))
    name = names[node.column]
    test = f"{_value(name)} < {node.cut!r}"
    if node.cut == -np.inf:
        test = f"{_field(name)}.empty"
    return f"({test} ? {left} : {right})"


def _feature_term(feature: RawFeature, weight: str, target: str) -> str:
    if feature.kind == "value":
        raise ExportError(
            f"{target} reads numbers, and column {printable(feature.column)!r} of this model holds "
            "texts",
            fix="Export to elasticsearch or opensearch (the LTR plugin), or to eland",
        )
    field, value = _field(feature.column), _value(feature.column)
    if feature.kind == "number":
        return f"{weight} * {value}"
    if feature.kind == "missing":
        return f"({field}.empty ? {weight} : 0)"
    inside = weight
    if feature.high is not None:
        inside = f"({value} < {feature.high!r} ? {inside} : 0)"
    if feature.low is not None:
        inside = f"({value} < {feature.low!r} ? 0 : {inside})"
    return f"({field}.empty ? 0 : {inside})"
