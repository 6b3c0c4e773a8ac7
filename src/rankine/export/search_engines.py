"""Learning to Rank of Elasticsearch (the o19s plugin), of OpenSearch and of Solr.

The first two share a parser and the body of ``POST _ltr/_featureset/<set>/_createmodel``.
``definition`` is a string: an index that first saw an object there refuses strings, and the other
way round. Only non-zero weights, no normalisers, no intercept; arithmetic is float32.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rankine.export.registry import (
    Export,
    ExportOptions,
    RawFeature,
    float32_terms,
    json_file,
    raw_features,
    register,
    require_plain,
)

if TYPE_CHECKING:
    from rankine.model import LinearModel


@register("elasticsearch")
def elasticsearch(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of a create-model request."""
    return create_model_body(model, options, "Elasticsearch LTR")


def create_model_body(model: LinearModel, options: ExportOptions, target: str) -> Export:
    """The request that Elasticsearch's and OpenSearch's plugins share."""
    raw_features(model, target)
    require_plain(model, target, raw=True)
    terms = float32_terms(model, target)
    pairs = ", ".join(f"{json.dumps(term.name)}: {term.weight}" for term in terms)
    body = {
        "model": {
            "name": options.versioned(model),
            "model": {"type": "model/linear", "definition": "{" + pairs + "}"},
        }
    }
    return Export(json_file(body), _feature_set(model, options))


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
        for name in (model.feature_names if raw is None else None) or model.weight_names
    ]
    sltr = {"params": {"keywords": ""}, "model": options.versioned(model)}
    search = {
        "query": {"match_all": {}},
        "rescore": {"window_size": 100, "query": {"rescore_query": {"sltr": sltr}}},
    }
    feature_set = {"featureset": {"name": options.feature_set, "features": features}}
    return {".featureset.json": json_file(feature_set), ".query.json": json_file(search)}


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
    raw = raw_features(model, "Solr LTR")
    require_plain(model, "Solr LTR", raw=True)
    terms = float32_terms(model, "Solr LTR")
    body = {
        "store": options.feature_set or options.store,
        "name": options.versioned(model),
        "class": "org.apache.solr.ltr.model.LinearModel",
        "features": [{"name": term.name} for term in terms],
        "params": {"weights": {term.name: float(term.weight) for term in terms}},
    }
    if options.feature_set is None:
        return Export(json_file(body))
    # Every feature is {!func}0: put your query in its place.
    asked = {one.name: _solr_feature(one) for one in raw or ()}
    unknown = {"class": f"{_SOLR}.SolrFeature", "params": {"q": "{!func}0"}}
    features = [
        {"store": options.feature_set, "name": term.name, **asked.get(term.name, unknown)}
        for term in terms
    ]
    rerank = f"{{!ltr model={options.versioned(model)} reRankDocs=100 efi.keywords=''}}"
    request = {"params": {"q": "*:*", "rq": rerank, "fl": "id,score,[features]"}}
    beside = {".featureset.json": json_file(features), ".query.json": json_file(request)}
    return Export(json_file(body), beside)


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
