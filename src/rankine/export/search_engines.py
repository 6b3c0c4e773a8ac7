"""Export to Learning to Rank of Elasticsearch (the o19s plugin), OpenSearch and Solr.

Elasticsearch and OpenSearch share a parser and the body of ``POST
_ltr/_featureset/<set>/_createmodel``. Its ``definition`` is a string: an index that first saw an
object there refuses strings, and vice versa. Only non-zero weights are written, without normalisers
or intercept; engines compute in float32. Tables are trees, in which a missing value leads left in
Solr (from 9.2) and right in the plugins (those that replace missing values by 0 look up 0).
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import numpy as np

from rankine.core.errors import ExportError
from rankine.export.features import (
    RawFeature,
    column_names,
    float32_terms,
    raw_features,
    require_linear,
)
from rankine.export.registry import Export, ExportOptions, json_bytes, register
from rankine.export.trees import LOWEST, Node, build_trees, write_tree
from rankine.model import LinearModel
from rankine.model.tables import Tables, find_tables


@register("elasticsearch", options=("feature_set",))
def export_elasticsearch(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of an Elasticsearch LTR create-model request."""
    return _create_model_request(model, options, "Elasticsearch LTR")


@register("opensearch", options=("feature_set",))
def export_opensearch(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of an OpenSearch LTR create-model request."""
    return _create_model_request(model, options, "OpenSearch LTR")


def _create_model_request(model: LinearModel, options: ExportOptions, target: str) -> Export:
    tables = find_tables(model)
    if tables is not None:
        # The plugins have no tables, and trees are the only form in which they store curves.
        trees = [_ltr_tree(tables, tree, target) for tree in build_trees(tables, target)]
        inner = {"type": "model/xgboost+json", "definition": json.dumps(trees)}
    else:
        raw_features(model, target)
        require_linear(model, target, raw=True, rules=("zero",))
        terms = float32_terms(model, target)
        pairs = ", ".join(f"{json.dumps(term.name)}: {term.weight}" for term in terms)
        inner = {"type": "model/linear", "definition": "{" + pairs + "}"}
    body = {"model": {"name": options.versioned(model), "model": inner}}
    return Export(json_bytes(body), _feature_set(model, options))


def _ltr_tree(tables: Tables, tree: Node, target: str) -> dict[str, Any]:
    """Write a tree in the format of XGBoost's dumps."""
    names = column_names(tables, target)
    # Nodes are numbered within a tree, and leaves have numbers as well.
    numbers = count()

    def write(node: Node, left: Any, right: Any) -> dict[str, Any]:
        number = next(numbers)
        if left is None:
            return {"nodeid": number, "leaf": node.value}
        cut = node.cut
        if cut == -np.inf:
            # OpenSearch 3.2 to 3.7 leads missing values right, whatever "missing" says. So numbers,
            # which are below the largest float32, go left. JSON has no infinity.
            cut, left, right = -LOWEST, right, left
        return {
            "nodeid": number, "depth": 0, "split": names[node.column], "split_condition": cut,
            "yes": left["nodeid"], "no": right["nodeid"], "missing": right["nodeid"],
            "children": [left, right],
        }  # fmt: skip

    return write_tree(tree, write)


def _feature_set(model: LinearModel, options: ExportOptions) -> dict[str, bytes]:
    """Write the feature set (``PUT _ltr/_featureset/NAME``) and a search that uses the model.

    Features of raw columns query the field of the same name. Other templates are ``match_all``,
    like the main query: users replace them by their own.
    """
    # Without a name the user has a feature set already, which must not be replaced.
    if options.feature_set is None:
        return {}
    # The score of a query on the field is the feature, so these templates work as they are.
    raw = raw_features(model, "LTR")
    if raw is None:
        names = model.column_names or model.weight_names
        templates: dict[str, Any] = {name: {"match_all": {}} for name in names}
    else:
        templates = {feature.name: field_query(feature) for feature in raw}
    features = [
        {
            "name": name,
            "params": ["keywords"],
            "template_language": "mustache",
            "template": template,
        }
        for name, template in templates.items()
    ]
    sltr = {"params": {"keywords": ""}, "model": options.versioned(model)}
    search = {
        "query": {"match_all": {}},
        "rescore": {"window_size": 100, "query": {"rescore_query": {"sltr": sltr}}},
    }
    feature_set = {"featureset": {"name": options.feature_set, "features": features}}
    return {".featureset.json": json_bytes(feature_set), ".query.json": json_bytes(search)}


def field_query(feature: RawFeature) -> dict[str, Any]:
    """Write the query whose score is a feature of a raw column, as a template of Mustache."""
    column = _without_tags(feature.column)
    if feature.kind == "number":
        # A document without the field does not match: its value is missing, or 0.
        exists = {"exists": {"field": column}}
        return {"function_score": {"query": exists, "field_value_factor": {"field": column}}}
    condition: dict[str, Any]
    if feature.kind == "value":
        condition = {"term": {column: _without_tags(feature.value)}}
    elif feature.kind == "missing":
        condition = {"bool": {"must_not": {"exists": {"field": column}}}}
    else:
        bounds = {"gte": _bound(feature.low), "lt": _bound(feature.high)}
        present = {name: bound for name, bound in bounds.items() if bound is not None}
        condition = {"range": {column: present}}
        # A cell without bounds holds every value that is present.
        if not present:
            condition = {"exists": {"field": column}}
    return {"constant_score": {"filter": condition}}


def _without_tags(text: str) -> str:
    """Return a template of a text: around ``{{``, which starts a tag, ``<%`` starts one instead."""
    return text.replace("{{", "{{=<% %>=}}{{<%={{ }}=%>")


def _bound(cut: float | None) -> float | None:
    """Return the bound of a range query: in Lucene -0 is below 0, and a cut at 0 is below both."""
    return -0.0 if cut == 0.0 else cut


@register("solr", options=("store", "feature_set"))
def export_solr(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of Solr's ``PUT schema/model-store``."""
    tables = find_tables(model)
    templates = {}
    if tables is not None:
        model_class = "MultipleAdditiveTreesModel"
        for feature in raw_features(model, "Solr LTR") or ():
            templates[feature.name] = _solr_feature(feature)
        names, params = _solr_trees(tables)
    else:
        for feature in raw_features(model, "Solr LTR") or ():
            templates[feature.name] = _solr_feature(feature)
        require_linear(model, "Solr LTR", raw=True, rules=("zero",))
        terms = float32_terms(model, "Solr LTR")
        model_class = "LinearModel"
        # Solr refuses a listed feature without a weight.
        names = [term.name for term in terms]
        params = {"weights": {term.name: float(term.weight) for term in terms}}
    body = {
        "store": options.feature_set or options.store,
        "name": options.versioned(model),
        "class": f"org.apache.solr.ltr.model.{model_class}",
        "features": [{"name": name} for name in names],
        "params": params,
    }
    if options.feature_set is None:
        return Export(json_bytes(body))
    # Features that are no fields are {!func}0: users replace it by their own query.
    features = []
    for name in names:
        template: dict[str, Any] = templates.get(name, _SOLR_PLACEHOLDER)
        if tables is not None:
            # Trees have a cell for missing values.
            params_with_default = {**template["params"], "defaultValue": "NaN"}
            template = {**template, "params": params_with_default}
        features.append({"store": options.feature_set, "name": name, **template})
    rerank = f"{{!ltr model={options.versioned(model)} reRankDocs=100 efi.keywords=''}}"
    request = {"params": {"q": "*:*", "rq": rerank, "fl": "id,score,[features]"}}
    extra_files = {".featureset.json": json_bytes(features), ".query.json": json_bytes(request)}
    return Export(json_bytes(body), extra_files)


def _solr_trees(tables: Tables) -> tuple[list[str], dict[str, Any]]:
    """Return the columns that trees read, and the trees."""
    names = column_names(tables, "Solr LTR")
    # Solr computes every listed feature, so only columns that a tree reads are listed.
    used_columns = set()

    def write(node: Node, left: Any, right: Any) -> dict[str, Any]:
        if left is None:
            return {"value": str(np.float32(node.value))}
        used_columns.add(node.column)
        return {
            "feature": names[node.column],
            "threshold": _solr_threshold(node.cut, names[node.column]),
            "missing": "left", "left": left, "right": right,
        }  # fmt: skip

    trees = [{"weight": "1", "root": write_tree(t, write)} for t in build_trees(tables, "Solr LTR")]
    return [names[j] for j in sorted(used_columns)], {"isNullSameAsZero": False, "trees": trees}


_SOLR = "org.apache.solr.ltr.feature"
_SOLR_PLACEHOLDER = {"class": f"{_SOLR}.SolrFeature", "params": {"q": "{!func}0"}}
#: What Solr adds to thresholds, in float32, and the smallest cut that this sum resolves.
_SOLR_SLACK, _SOLR_SMALLEST = np.float32(1e-6), 3e-12


def _solr_threshold(cut: float, name: str) -> str:
    """Return the threshold for ``x < cut``; Solr's condition is ``x <= threshold + 1e-6``.

    The sum is rounded, so that it is the largest float32 below the cut or, close to 0, some 1e-13
    below it. Values between the two are treated like the cut; smaller cuts are refused.
    """
    lowest, highest = np.float32(LOWEST), np.float32(-LOWEST)
    single = max(np.float32(cut), lowest)
    threshold = np.nextafter(single - _SOLR_SLACK, highest)
    while threshold > lowest and threshold + _SOLR_SLACK >= single:
        threshold = np.nextafter(threshold, lowest)
    exact = np.nextafter(threshold + _SOLR_SLACK, highest) >= single
    if 0 < abs(cut) < _SOLR_SMALLEST and not exact:
        raise ExportError(
            f"Solr cannot tell values apart at {cut}, a cut of {name!r}",
            fix="Train on this column in other units, a million times as large",
        )
    return str(threshold)


def _solr_feature(feature: RawFeature) -> dict[str, Any]:
    """Return the class and parameters of a feature of a raw column."""
    column = feature.column
    if feature.kind == "number":
        return {"class": f"{_SOLR}.FieldValueFeature", "params": {"field": column}}
    if feature.kind == "value":
        query = f"{{!term f={column}}}{feature.value}"
    elif feature.kind == "missing":
        query = f"*:* -{column}:[* TO *]"
    else:
        low = "*" if feature.low is None else repr(_bound(feature.low))
        # A curly bracket excludes the upper bound in Lucene's syntax.
        high = "*]" if feature.high is None else f"{_bound(feature.high)!r}}}"
        query = f"{column}:[{low} TO {high}"
    return {"class": f"{_SOLR}.SolrFeature", "params": {"fq": [query]}}
