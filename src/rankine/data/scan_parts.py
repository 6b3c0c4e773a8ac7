"""A part of a stream: the same blocks, with only some of their queries."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import QueryOrderError
from rankine.data.fingerprint import fingerprint
from rankine.kernels.compile import jit
from rankine.kernels.random import random_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rankine.data.dataset import Dataset
    from rankine.data.scan import Scan

    #: Called with each block of a pass in turn; positions of the queries to keep.
    Choose = Callable[[Dataset], NDArray[np.int64]]

__all__ = ["ScanPart", "by_hash", "by_order"]

#: Queries counted in a stream, by time column; forgotten with the stream.
_COUNTS: WeakKeyDictionary[Any, dict[str | None, int]] = WeakKeyDictionary()


class ScanPart:
    """Chosen queries of a stream; re-iterable, with the attributes of a ``Scan``.

    Parameters
    ----------
    scan
        The whole stream.
    start
        Called at the start of each pass; returns the function that chooses queries of a block.
    """

    def __init__(self, scan: Scan, start: Callable[[], Choose]) -> None:
        self._scan = scan
        self._start = start
        self.options = scan.options
        self.sources = scan.sources

    @property
    def n_features(self) -> int:
        """Width of every block."""
        return self._scan.n_features

    @property
    def feature_names(self) -> Any:
        """Names of the features, or None."""
        return self._scan.feature_names

    @property
    def encoding(self) -> Any:
        """How raw columns became features, or None."""
        return getattr(self._scan, "encoding", None)

    def blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """One pass over the part; blocks without chosen queries are left out."""
        choose = self._start()
        for block in self._scan.blocks(block_rows):
            chosen = choose(block)
            if len(chosen) == block.n_queries:
                yield block
            elif len(chosen):
                yield block.take_queries(chosen)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the chosen rows, by one pass."""
        return fingerprint(self.blocks())

    def __iter__(self) -> Iterator[Dataset]:
        return self.blocks()

    def __repr__(self) -> str:
        return f"Part of {self._scan!r}"


def by_hash(shares: NDArray[np.float64], part: int, seed: np.uint64) -> Callable[[], Choose]:
    """Queries whose hash, as a number in [0, 1), lies between two shares."""

    def choose(block: Dataset) -> NDArray[np.int64]:
        unit = query_units(block.queries.ids, seed)
        return np.flatnonzero((unit >= shares[part]) & (unit < shares[part + 1]))

    return lambda: choose


def by_order(
    scan: Scan, shares: NDArray[np.float64], part: int, time: str | None
) -> Callable[[], Choose]:
    """Queries number ``shares[part] n`` to ``shares[part + 1] n`` of the n in the stream."""

    def start() -> Choose:
        cuts = np.rint(shares * _count_queries(scan, time)).astype(np.int64)
        seen = 0

        def choose(block: Dataset) -> NDArray[np.int64]:
            nonlocal seen
            first, seen = seen, seen + block.n_queries
            low, high = max(int(cuts[part]), first), min(int(cuts[part + 1]), seen)
            return np.arange(low - first, max(high, low) - first)

        return choose

    return start


def _count_queries(scan: Scan, time: str | None) -> int:
    """Queries of the stream, by one pass that is remembered; times must not run backwards."""
    known = _COUNTS.get(scan)
    if known is not None and time in known:
        return known[time]
    from rankine.data.splits import query_times

    total = 0
    latest = None
    for block in scan.blocks():
        total += block.n_queries
        if time is None:
            continue
        times = query_times(block, time)
        times = times if latest is None else np.concatenate([[latest], times])
        if (times[1:] < times[:-1]).any():
            raise QueryOrderError(
                f"queries are not in order of {time!r}",
                file=block.sources[-1] if block.sources else None,
                fix="Sort the files by time, or use rankine.load",
            )
        latest = times[-1]
    _COUNTS.setdefault(scan, {})[time] = total
    return total


def query_units(ids: NDArray[Any], seed: np.uint64) -> NDArray[np.float64]:
    """A number in [0, 1) for each query id, the same wherever the id appears."""
    if ids.dtype.kind == "i":
        return _units(ids.astype(np.int64), seed)
    key = seed.tobytes()
    digests = b"".join(
        hashlib.blake2b(str(text).encode(), digest_size=8, key=key).digest()
        for text in ids.tolist()
    )
    bits = np.frombuffer(digests, dtype="<u8") >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


@jit
def _units(ids: Any, seed: Any) -> Any:
    out = np.empty(ids.shape[0])
    for k in range(ids.shape[0]):
        out[k] = random_unit(seed, ids[k])
    return out
