"""Solr Learning to Rank: the body of ``PUT schema/model-store``.

Every listed feature must have a weight, so only weighted features are listed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rankine.export.registry import Export, ExportOptions, register
from rankine.export.terms import float32_terms, require_plain

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__: list[str] = []


@register("solr")
def solr(model: LinearModel, options: ExportOptions) -> Export:
    """Write a ``LinearModel`` of Solr."""
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
