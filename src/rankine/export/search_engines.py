"""Learning to Rank of Elasticsearch (the o19s plugin), of OpenSearch and of Solr.

The first two share a parser and the body of ``POST _ltr/_featureset/<set>/_createmodel``.
``definition`` is a string: an index that first saw an object there refuses strings, and the other
way round. Only non-zero weights, no normalisers, no intercept; arithmetic is float32.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rankine.export.registry import (
    Export,
    ExportOptions,
    float32_terms,
    json_file,
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
    require_plain(model, target)
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

    Templates are ``match_all``, and so is the query: put yours in their place.
    """
    if options.feature_set is None:
        return {}
    features = [
        {
            "name": name,
            "params": ["keywords"],
            "template_language": "mustache",
            "template": {"match_all": {}},
        }
        for name in model.feature_names or model.weight_names
    ]
    sltr = {"params": {"keywords": ""}, "model": options.versioned(model)}
    search = {
        "query": {"match_all": {}},
        "rescore": {"window_size": 100, "query": {"rescore_query": {"sltr": sltr}}},
    }
    feature_set = {"featureset": {"name": options.feature_set, "features": features}}
    return {".featureset.json": json_file(feature_set), ".query.json": json_file(search)}


@register("opensearch")
def opensearch(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of a create-model request."""
    return create_model_body(model, options, "OpenSearch LTR")


@register("solr")
def solr(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of ``PUT schema/model-store``; every listed feature must have a weight."""
    require_plain(model, "Solr LTR")
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
    features = [
        {
            "store": options.feature_set,
            "name": term.name,
            "class": "org.apache.solr.ltr.feature.SolrFeature",
            "params": {"q": "{!func}0"},
        }
        for term in terms
    ]
    rerank = f"{{!ltr model={options.versioned(model)} reRankDocs=100 efi.keywords=''}}"
    request = {"params": {"q": "*:*", "rq": rerank, "fl": "id,score,[features]"}}
    beside = {".featureset.json": json_file(features), ".query.json": json_file(request)}
    return Export(json_file(body), beside)
