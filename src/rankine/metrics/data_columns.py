"""The columns of a data set, as metrics look them up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset

__all__ = ["data_columns"]


def data_columns(data: Dataset) -> Mapping[str, Any]:
    """Named columns and, for ties, the document ids."""
    return dict(data.columns) if data.docid is None else {**data.columns, "docid": data.docid}
