"""Data sets, streams, and the readers and writers of their files."""

from rankine.data.dataset import Dataset
from rankine.data.expressions import tiers
from rankine.data.query_index import LabelIndex, QueryIndex

__all__ = ["Dataset", "LabelIndex", "QueryIndex", "tiers"]
