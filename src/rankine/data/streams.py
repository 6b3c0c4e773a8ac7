"""Define the interfaces of labelled lists that are not in memory: streams and partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from rankine.data.dataset import Dataset, concat
from rankine.data.fingerprint import fingerprint


class LabelledStream(ABC):
    """Labelled lists read block by block; blocks never cut a query.

    ``rankine.scan`` and ``rankine.logs.scan`` return one.

    Attributes
    ----------
    sources
        Names of the files.
    is_raw_log
        Whether the features are made from the columns of a raw log.
    """

    sources: tuple[str, ...] = ()
    is_raw_log: bool = False

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
        """Yield blocks of rows in one pass; queries may be cut and may reappear."""
        return iter(self)

    def load(self) -> Dataset:
        """Read all lists into memory."""
        return concat(self)

    def compute_fingerprint(self) -> str:
        """Read all rows once and compute their digest, which the same data in memory has too."""
        return fingerprint(self.raw_blocks())

    def log_encoding(self) -> Any:
        """Return how the columns of a raw log become features; None for any other stream.

        A log is read once where values or cuts have to be measured first.
        """
        return None

    def for_tables(self) -> LabelledStream:
        """Return the stream with the columns of a raw log as columns of tables."""
        if not self.is_raw_log:
            return self
        return EncodedStream(self, self.log_encoding().for_tables(self))


class EncodedStream(LabelledStream):
    """A stream of a raw log with another encoding of its columns."""

    is_raw_log = True

    def __init__(self, stream: LabelledStream, encoding: Any) -> None:
        self._stream = stream
        self._encoding = encoding
        self.sources = stream.sources

    @property
    def n_features(self) -> int:
        """Number of columns of every block."""
        return int(self._encoding.spec.n_features)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, when none is hashed."""
        names: tuple[str, ...] | None = self._encoding.feature_names
        return names

    def __iter__(self) -> Iterator[Dataset]:
        return map(self._encoding.encode, self._stream)

    def log_encoding(self) -> Any:
        """Return the encoding."""
        return self._encoding


class LabelledPartitions(ABC):
    """Labelled lists cut into partitions of whole queries, as by ``rankine.distributed.scan``.

    The base class is here so that a ranker can recognise partitions without importing
    ``rankine.distributed``, which takes as long as a small fit.
    """

    n_features: int
    feature_names: tuple[str, ...] | None
    sources: tuple[str, ...]
    encoding: Any
