"""The interface of streams: labelled lists that are read block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from rankine.data.dataset import Dataset


class LabelledStream(ABC):
    """Labelled lists read block by block; blocks never cut a query.

    ``rankine.scan`` and ``rankine.logs.scan`` return one.

    Attributes
    ----------
    sources
        Names of the files.
    """

    sources: tuple[str, ...] = ()

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns of every block."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, or None."""
        return None

    @abstractmethod
    def __iter__(self) -> Iterator[Dataset]: ...

    def raw_blocks(self) -> Iterator[Dataset]:
        """Read the rows once; queries may be cut and may come back."""
        return iter(self)

    def log_encoding(self) -> Any:
        """Return how the columns of a raw log become features; None for any other stream.

        A log is read once where values or cuts have to be measured first.
        """
        return None
