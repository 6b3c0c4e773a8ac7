"""Learning to Rank of Elasticsearch (the o19s plugin), of OpenSearch and of Solr.

The first two share a parser and the body of ``POST _ltr/_featureset/<set>/_createmodel``.
``definition`` is a string: an index that first saw an object there refuses strings, and the other
way round. Only non-zero weights, no normalisers, no intercept; arithmetic is float32.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rankine.export.registry import Export, ExportOptions, float32_terms, register, require_plain

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__ = ["create_model_body"]


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
    return Export(json.dumps(body, indent=2).encode() + b"\n")


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
        "store": options.store,
        "name": options.versioned(model),
        "class": "org.apache.solr.ltr.model.LinearModel",
        "features": [{"name": term.name} for term in terms],
        "params": {"weights": {term.name: float(term.weight) for term in terms}},
    }
    return Export(json.dumps(body, indent=2).encode() + b"\n")
