"""Learning to Rank of Elasticsearch (the o19s plugin), of OpenSearch and of Solr.

The first two share a parser and the body of ``POST _ltr/_featureset/<set>/_createmodel``.
``definition`` is a string: an index that first saw an object there refuses strings, and the other
way round. Only non-zero weights, no normalisers, no intercept; arithmetic is float32. Tables are
trees, in which a missing value goes left (Solr from 9.2; plugins that take missing values for 0 ask
the tables for 0).
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import numpy as np

from rankine.export.registry import (
    LOWEST,
    Export,
    ExportOptions,
    Node,
    RawFeature,
    build_trees,
    column_names,
    float32_terms,
    json_bytes,
    nested,
    raw_features,
    register,
    require_linear,
)
from rankine.model import LinearModel
from rankine.model.tables import Tables, find_tables


@register("elasticsearch")
def elasticsearch(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of a create-model request."""
    return create_model_body(model, options, "Elasticsearch LTR")


def create_model_body(model: LinearModel, options: ExportOptions, target: str) -> Export:
    """The request that Elasticsearch's and OpenSearch's plugins share."""
    tables = find_tables(model)
    if tables is not None:
        written = [_ltr_tree(tables, tree, target) for tree in build_trees(tables, target)]
        inner = {"type": "model/xgboost+json", "definition": json.dumps(written)}
    else:
        raw_features(model, target)
        require_linear(model, target, raw=True, rules=("zero",))
        terms = float32_terms(model, target)
        pairs = ", ".join(f"{json.dumps(term.name)}: {term.weight}" for term in terms)
        inner = {"type": "model/linear", "definition": "{" + pairs + "}"}
    body = {"model": {"name": options.versioned(model), "model": inner}}
    return Export(json_bytes(body), _feature_set(model, options))


def _ltr_tree(tables: Tables, tree: Node, target: str) -> dict[str, Any]:
    """A tree as XGBoost dumps it."""
    names = column_names(tables, target)
    numbers = count()

    def write(node: Node, left: Any, right: Any) -> dict[str, Any]:
        number = next(numbers)
        if left is None:
            return {"nodeid": number, "leaf": node.value}
        return {
            "nodeid": number, "depth": 0, "split": names[node.column],
            "split_condition": max(node.cut, LOWEST), "yes": left["nodeid"], "no": right["nodeid"],
            "missing": left["nodeid"], "children": [left, right],
        }  # fmt: skip

    return nested(tree, write)


def _feature_set(model: LinearModel, options: ExportOptions) -> dict[str, bytes]:
    """The feature set (``PUT _ltr/_featureset/NAME``) and a search that rescores by the model.

    Templates are ``match_all``, and so is the query: put yours in their place. Features of raw
    columns ask the fields of the same names.
    """
    if options.feature_set is None:
        return {}
    raw = raw_features(model, "LTR")
    templates = {one.name: _template(one) for one in raw or ()}
    features = [
        {
            "name": name,
            "params": ["keywords"],
            "template_language": "mustache",
            "template": templates.get(name, {"match_all": {}}),
        }
        for name in (model.column_names if raw is None else None) or model.weight_names
    ]
    sltr = {"params": {"keywords": ""}, "model": options.versioned(model)}
    search = {
        "query": {"match_all": {}},
        "rescore": {"window_size": 100, "query": {"rescore_query": {"sltr": sltr}}},
    }
    feature_set = {"featureset": {"name": options.feature_set, "features": features}}
    return {".featureset.json": json_bytes(feature_set), ".query.json": json_bytes(search)}


def _template(one: RawFeature) -> dict[str, Any]:
    """The query that gives a feature of a raw column."""
    if one.kind == "number":
        return {"function_score": {"field_value_factor": {"field": one.column, "missing": 0}}}
    if one.kind == "value":
        asks: dict[str, Any] = {"term": {one.column: one.value}}
    elif one.kind == "missing":
        asks = {"bool": {"must_not": {"exists": {"field": one.column}}}}
    else:
        ends = {"gte": one.low, "lt": one.high}
        found = {name: end for name, end in ends.items() if end is not None}
        asks = {"range": {one.column: found}} if found else {"exists": {"field": one.column}}
    return {"constant_score": {"filter": asks}}


@register("opensearch")
def opensearch(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of a create-model request."""
    return create_model_body(model, options, "OpenSearch LTR")


@register("solr")
def solr(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of ``PUT schema/model-store``; every listed feature must have a weight."""
    raw, tables = None, find_tables(model)
    if tables is not None:
        kind = "MultipleAdditiveTreesModel"
        names, params = _solr_trees(tables)
    else:
        raw = raw_features(model, "Solr LTR")
        require_linear(model, "Solr LTR", raw=True, rules=("zero",))
        kind, terms = "LinearModel", float32_terms(model, "Solr LTR")
        names = [term.name for term in terms]
        params = {"weights": {term.name: float(term.weight) for term in terms}}
    body = {
        "store": options.feature_set or options.store,
        "name": options.versioned(model),
        "class": f"org.apache.solr.ltr.model.{kind}",
        "features": [{"name": name} for name in names],
        "params": params,
    }
    if options.feature_set is None:
        return Export(json_bytes(body))
    # Every feature is {!func}0: put your query in its place.
    asked = {one.name: _solr_feature(one) for one in raw or ()}
    unknown = {"class": f"{_SOLR}.SolrFeature", "params": {"q": "{!func}0"}}
    features = [
        {"store": options.feature_set, "name": name, **asked.get(name, unknown)} for name in names
    ]
    rerank = f"{{!ltr model={options.versioned(model)} reRankDocs=100 efi.keywords=''}}"
    request = {"params": {"q": "*:*", "rq": rerank, "fl": "id,score,[features]"}}
    beside = {".featureset.json": json_bytes(features), ".query.json": json_bytes(request)}
    return Export(json_bytes(body), beside)


def _solr_trees(tables: Tables) -> tuple[list[str], dict[str, Any]]:
    """Columns that trees ask, and the trees; Solr asks ``x <= threshold``."""
    names = column_names(tables, "Solr LTR")
    asked = set()

    def write(node: Node, left: Any, right: Any) -> dict[str, Any]:
        if left is None:
            return {"value": str(np.float32(node.value))}
        asked.add(node.column)
        lowest = np.float32(LOWEST)
        threshold = str(np.nextafter(max(np.float32(node.cut), lowest), lowest))
        return {
            "feature": names[node.column], "threshold": threshold, "missing": "left",
            "left": left, "right": right,
        }  # fmt: skip

    trees = [{"weight": "1", "root": nested(t, write)} for t in build_trees(tables, "Solr LTR")]
    return [names[j] for j in sorted(asked)], {"isNullSameAsZero": "false", "trees": trees}


_SOLR = "org.apache.solr.ltr.feature"


def _solr_feature(one: RawFeature) -> dict[str, Any]:
    """Class and parameters that give a feature of a raw column."""
    if one.kind == "number":
        return {"class": f"{_SOLR}.FieldValueFeature", "params": {"field": one.column}}
    if one.kind == "value":
        query = f"{{!term f={one.column}}}{one.value}"
    elif one.kind == "missing":
        query = f"*:* -{one.column}:[* TO *]"
    else:
        low = "*" if one.low is None else repr(one.low)
        high = "*]" if one.high is None else f"{one.high!r}}}"
        query = f"{one.column}:[{low} TO {high}"
    return {"class": f"{_SOLR}.SolrFeature", "params": {"fq": [query]}}
