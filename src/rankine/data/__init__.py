"""Queries, datasets, streams and the readers that make them."""

from rankine.data.dataset import Dataset
from rankine.data.query_index import LabelIndex, QueryIndex
from rankine.data.tiers import tiers

__all__ = ["Dataset", "LabelIndex", "QueryIndex", "tiers"]
