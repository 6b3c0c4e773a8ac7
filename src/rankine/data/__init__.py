"""Queries, datasets, streams and the readers that make them."""

from rankine.data.dataset import Dataset
from rankine.data.label_index import LabelIndex
from rankine.data.query_index import QueryIndex
from rankine.data.tiers import tiers

__all__ = ["Dataset", "LabelIndex", "QueryIndex", "tiers"]
