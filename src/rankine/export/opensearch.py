"""OpenSearch Learning to Rank: the same parser, the same body as Elasticsearch's plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankine.export.elasticsearch import create_model_body
from rankine.export.registry import Export, ExportOptions, register

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__: list[str] = []


@register("opensearch")
def opensearch(model: LinearModel, options: ExportOptions) -> Export:
    """Write the body of a create-model request."""
    return create_model_body(model, options, "OpenSearch LTR")
