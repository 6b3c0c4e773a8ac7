"""Split data without cutting queries: at random, in folds, or in order of time.

Proportions are any positive numbers: ``(9, 1, 1)`` and ``(9/11, 1/11, 1/11)`` are equal. A part of
a stream consists of the same blocks with only some of their queries.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.column_values import number_of
from rankine.core.errors import ParameterError, QueryOrderError, SchemaError
from rankine.data.dataset import Dataset
from rankine.data.scan import sort_hint
from rankine.data.streams import LabelledStream
from rankine.kernels.compile import jit
from rankine.kernels.random import SPLIT, permutation, random_unit, resolve_seed, stream_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rankine.data.scan import Scan

__all__ = [
    "ScanPart",
    "named_parts",
    "parse_split",
    "query_folds",
    "split_in_order",
    "split_queries",
]

#: Called with each block of a pass in order; returns the positions of the queries to keep.
QueryChooser = Callable[[Dataset], NDArray[np.int64]]

#: Times are counted one by one up to this number; folders of a log have fewer.
_MAX_TIMES = 100_000


class QueryCounts(NamedTuple):
    """Number of queries of a stream.

    Attributes
    ----------
    by_time
        Number of queries of each time, in order; None where a query has several times.
    """

    total: int
    by_time: list[int] | None


class PartPass(NamedTuple):
    """A pass over one part: the stream to read, and what chooses the queries of its blocks."""

    stream: Any
    choose: QueryChooser


#: Number of queries of each stream by time column; entries disappear with the stream.
_QUERY_COUNTS: WeakKeyDictionary[Any, dict[str | None, QueryCounts]] = WeakKeyDictionary()


class ScanPart(LabelledStream):
    """Some queries of a stream; it can be read as often as the stream.

    Parameters
    ----------
    scan
        The whole stream.
    start_pass
        Called at the start of each pass.
    """

    def __init__(self, scan: Scan, start_pass: Callable[[], PartPass]) -> None:
        self._scan = scan
        self._start_pass = start_pass
        self.options = scan.options
        self.sources = scan.sources
        self.is_raw_log = scan.is_raw_log

    @property
    def n_features(self) -> int:
        """Width of every block."""
        return self._scan.n_features

    @property
    def feature_names(self) -> Any:
        """Names of the features, or None."""
        return self._scan.feature_names

    @property
    def schema(self) -> Any:
        """Schema of the raw log, or None."""
        return getattr(self._scan, "schema", None)

    def log_encoding(self) -> Any:
        """Return the encoding of the whole log, or None."""
        return self._scan.log_encoding()

    def blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """Yield blocks of the chosen queries, in one pass over the stream."""
        stream, choose = self._start_pass()
        for block in stream.blocks(block_rows):
            queries = choose(block)
            if len(queries) == block.n_queries:
                yield block
            elif len(queries):
                yield block.take_queries(queries)

    def __iter__(self) -> Iterator[Dataset]:
        return self.blocks()

    def __repr__(self) -> str:
        return f"Part of {self._scan!r}"


def _choose_by_hash(
    scan: Scan, shares: NDArray[np.float64], part: int, seed: np.uint64
) -> Callable[[], PartPass]:
    """Choose the queries whose hash, as a number in [0, 1), is between two shares."""

    def choose(block: Dataset) -> NDArray[np.int64]:
        unit = query_units(block.queries.ids, seed)
        return np.flatnonzero((unit >= shares[part]) & (unit < shares[part + 1]))

    return lambda: PartPass(scan, choose)


def _choose_by_order(
    scan: Scan, shares: NDArray[np.float64], part: int, time: str | None
) -> Callable[[], PartPass]:
    """Choose the queries number ``shares[part] n`` to ``shares[part + 1] n`` of n in the stream."""

    def start_pass() -> PartPass:
        # The number of queries is known after one pass only; it is counted once for all parts.
        counts = _count_queries(scan, time)
        cuts = np.rint(shares * counts.total).astype(np.int64)
        stream, n_queries = _select_files(scan, time, counts, cuts[part : part + 2])

        def choose(block: Dataset) -> NDArray[np.int64]:
            nonlocal n_queries
            first, n_queries = n_queries, n_queries + block.n_queries
            low, high = max(int(cuts[part]), first), min(int(cuts[part + 1]), n_queries)
            return np.arange(low - first, max(high, low) - first)

        return PartPass(stream, choose)

    return start_pass


def _select_files(
    scan: Any, time: str | None, counts: QueryCounts, cuts: NDArray[np.int64]
) -> tuple[Any, int]:
    """Return the stream without the files of other times, and the number of queries before it.

    Only files tell their times whose Hive column is the column of times.
    """
    values = [source.partition.get(time) for source in getattr(scan, "inputs", ())]
    groups = list(dict.fromkeys(values))
    # Each time is then that of one folder, in the same order.
    if not groups or None in groups or counts.by_time is None or len(groups) != len(counts.by_time):
        return scan, 0
    ends = np.cumsum(counts.by_time)
    first, last = np.searchsorted(ends, cuts[0], side="right"), np.searchsorted(ends, cuts[1])
    chosen = set(groups[first : last + 1])
    if len(chosen) == len(groups) or not chosen:
        return scan, 0
    files = [source for source in scan.inputs if source.partition[time] in chosen]
    return scan.select_files(files), int(ends[first] - counts.by_time[first])


def _count_queries(scan: Scan, time: str | None) -> QueryCounts:
    """Count the queries of a stream in one pass, whose result is kept; check the order of times."""
    counts = _QUERY_COUNTS.get(scan)
    if counts is not None and time in counts:
        return counts[time]

    total = 0
    latest = None
    by_time: Counter[Any] | None = Counter()
    for block in scan.blocks():
        total += block.n_queries
        if time is None:
            continue
        times = query_times(block, time)
        if by_time is not None:
            by_time.update(times.tolist())
            if len(by_time) > _MAX_TIMES or _has_several_times(block, time):
                by_time = None
        # Order is checked across blocks too: the last time of a block comes before the next block.
        if latest is not None:
            times = np.concatenate([[latest], times])
        if (times[1:] < times[:-1]).any():
            raise QueryOrderError(
                f"queries are not in order of {time!r}",
                file=next(reversed(block.sources), None),
                fix=sort_hint(*_files_and_query(scan), time),
            )
        latest = times[-1]
    counted = QueryCounts(total, None if by_time is None else list(by_time.values()))
    _QUERY_COUNTS.setdefault(scan, {})[time] = counted
    return counted


def _has_several_times(block: Dataset, time: str) -> bool:
    """Whether rows of one query have different times."""
    values = block.queries.gather(np.asarray(block.columns[time]))
    differs = values[1:] != values[:-1]
    differs[block.queries.starts[1:-1] - 1] = False  # a row and the next one, of another query
    return bool(differs.any())


def _files_and_query(scan: Any) -> tuple[Sequence[str], str | None]:
    """Return the files and query column of a stream; a user's own stream may have neither."""
    options = getattr(scan, "options", None)
    return getattr(scan, "sources", ()), getattr(options, "query", None)


def query_units(ids: NDArray[Any], seed: np.uint64) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each query id, the same wherever the id appears."""
    if ids.dtype.kind == "i":
        return _units(ids.astype(np.int64), seed)
    key = seed.tobytes()
    digests = b"".join(
        hashlib.blake2b(str(text).encode(), digest_size=8, key=key).digest()
        for text in ids.tolist()
    )
    # The upper 53 bits of a digest are the digits of a float in [0, 1).
    bits = np.frombuffer(digests, dtype="<u8") >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


@jit
def _units(ids: Any, seed: Any) -> Any:
    out = np.empty(ids.shape[0])
    for k in range(ids.shape[0]):
        out[k] = random_unit(seed, ids[k])
    return out


def split_queries(
    data: Dataset | Scan, proportions: Sequence[float], random_state: Any = None
) -> tuple[Any, ...]:
    """Divide whole queries at random.

    Parameters
    ----------
    data
        A ``Dataset``, or a ``Scan``: then each query is assigned by a hash of its id, so that
        sizes are only close to the proportions, and a query is in the same part in every file and
        every pass.
    proportions
        One positive number per part.
    random_state
        Seed; None draws a random one.

    Returns
    -------
    tuple
        Datasets in the original row order (or re-iterable streams), one per proportion.

    Examples
    --------
    >>> data = Dataset.from_arrays(np.eye(6), np.arange(6), [1, 1, 2, 2, 3, 3])
    >>> train, test = split_queries(data, (2, 1), random_state=0)
    >>> train.n_queries, test.n_queries
    (2, 1)
    """
    shares = _cumulate(proportions)
    seed = stream_seed(resolve_seed(random_state), SPLIT)
    if not isinstance(data, Dataset):
        return tuple(
            ScanPart(data, _choose_by_hash(data, shares, part, seed))
            for part in range(len(shares) - 1)
        )
    order = permutation(seed, data.n_queries)
    return _parts(data, order, shares)


def query_folds(
    data: Dataset, n_folds: int = 5, random_state: Any = None
) -> Iterator[tuple[Dataset, Dataset]]:
    """Yield ``n_folds`` pairs (training, test); every query is in exactly one test part.

    The numbers of queries in two folds differ by at most 1.
    """
    if not 2 <= n_folds <= data.n_queries:
        raise ParameterError(
            f"{n_folds} folds for {data.n_queries} queries",
            parameter="n_folds",
            fix="Choose at least 2 and at most the number of queries",
        )
    seed = stream_seed(resolve_seed(random_state), SPLIT)
    order = permutation(seed, data.n_queries)
    for fold in range(n_folds):
        in_test = np.zeros(data.n_queries, dtype=np.bool_)
        # Every n-th query of a random order: sizes differ by at most one.
        in_test[order[fold::n_folds]] = True
        yield _take(data, np.flatnonzero(~in_test)), _take(data, np.flatnonzero(in_test))


def split_in_order(
    data: Dataset | Scan, proportions: Sequence[float], time: str | ArrayLike | None = None
) -> tuple[Any, ...]:
    """Divide whole queries by time: the first part is the oldest. Nothing is shuffled.

    Parameters
    ----------
    data
        A ``Dataset``, or a ``Scan`` in order of time (one pass counts its queries).
    proportions
        One positive number per part: shares of the queries.
    time
        A column of ``data.columns`` or one value per row; a query has the time of its earliest row.
        None: the order in which queries appear. For a ``Scan``, a column by which its queries
        must already be sorted, which is checked.

    Returns
    -------
    tuple
        Datasets in the original row order (or re-iterable streams), one per proportion.
    """
    shares = _cumulate(proportions)
    if not isinstance(data, Dataset):
        if time is not None and not isinstance(time, str):
            raise ParameterError(
                "the times of a stream must be one of its columns",
                parameter="time",
                fix="Pass the column's name",
            )
        return tuple(
            ScanPart(data, _choose_by_order(data, shares, part, time))
            for part in range(len(shares) - 1)
        )
    if time is None:
        return _parts(data, np.arange(data.n_queries), shares)
    return _parts(data, np.argsort(query_times(data, time), kind="stable"), shares)


def parse_split(text: str) -> tuple[float, ...]:
    """Parse a split such as ``"time:9/11,1/11,1/11"``: two or three positive shares.

    Examples
    --------
    >>> parse_split("time:0.8,0.2")
    (0.8, 0.2)
    """
    order, colon, numbers = text.partition(":")
    try:
        # Fractions, so that 9/11 can be written as it is meant.
        shares = tuple(float(Fraction(number.strip())) for number in numbers.split(","))
    except (ValueError, ZeroDivisionError):
        shares = ()
    valid = order == "time" and colon and len(shares) in (2, 3) and all(s > 0 for s in shares)
    if not valid:
        raise ParameterError(
            f"cannot read the split {text!r}",
            parameter="split",
            fix="Write it like time:9/11,1/11,1/11",
        )
    return shares


def named_parts(data: Any, split: str, time: str | None) -> dict[str, Any]:
    """Return the parts "train", "valid" and, with three shares, "test" of a split by time."""
    parts = split_in_order(data, parse_split(split), time)
    return dict(zip(("train", "valid", "test")[: len(parts)], parts, strict=True))


def query_times(data: Dataset, time: str | ArrayLike) -> NDArray[Any]:
    """Return the time of each query's earliest row."""
    if isinstance(time, str):
        if time not in data.columns:
            raise SchemaError(
                f"no column {time!r}; there are {sorted(data.columns)}",
                parameter="columns",
                fix="Add it to columns",
                column=time,
            )
        time = data.columns[time]
    values = np.asarray(time)
    if values.dtype.kind == "T":
        values = _parse_times(values)
    if values.shape != (data.n_rows,) or values.dtype.kind not in "iufM":
        raise SchemaError(
            f"times are {values.dtype} of shape {values.shape} for {data.n_rows} rows",
            fix="Pass one number or date per row",
        )
    if values.dtype.kind == "M":
        missing = np.isnat(values)
    else:
        missing = ~np.isfinite(values)
    if missing.any():
        raise SchemaError("some times are missing", fix="Give every row a time")
    index = data.queries
    if index.n_queries == 0:
        return values
    return np.asarray(np.minimum.reduceat(index.gather(values), index.starts[:-1]))


def _parse_times(texts: NDArray[Any]) -> NDArray[Any]:
    """Convert times that are categories of a log too, and so text; others are returned as text."""
    try:
        return texts.astype(np.int64)
    except ValueError:
        with suppress(TypeError, ValueError):
            return np.array([number_of(text) for text in texts.tolist()])
    return texts


def _cumulate(proportions: Sequence[float]) -> NDArray[np.float64]:
    """Return the cumulative shares of the parts, from 0 to 1."""
    parts = np.asarray(proportions, dtype=np.float64)
    if parts.ndim != 1 or len(parts) < 2 or not np.isfinite(parts).all() or (parts <= 0).any():
        raise ParameterError(
            f"{proportions!r} are not two or more positive numbers",
            parameter="proportions",
            fix="Pass for example (0.8, 0.2) or (9, 1, 1)",
        )
    ends = np.cumsum(parts) / parts.sum()
    # Rounding could leave the last query out.
    ends[-1] = 1.0
    return np.concatenate([[0.0], ends])


def _parts(
    data: Dataset, order: NDArray[np.int64], shares: NDArray[np.float64]
) -> tuple[Dataset, ...]:
    cuts = np.rint(shares * len(order)).astype(np.int64)
    if (np.diff(cuts) == 0).any():
        part = int(np.argmax(np.diff(cuts) == 0))
        raise ParameterError(
            f"part {part + 1} would get none of the {len(order)} queries",
            parameter="proportions",
            fix="Choose other proportions, or more data",
        )
    return tuple(_take(data, np.sort(order[a:b])) for a, b in zip(cuts[:-1], cuts[1:], strict=True))


def _take(data: Dataset, queries: NDArray[np.int64]) -> Dataset:
    """Take whole queries, their rows in the original order."""
    # Rows that are not grouped keep their order: they are chosen one by one.
    if data.queries.rows is None:
        return data.take_queries(queries)
    chosen_queries = np.zeros(data.n_queries, dtype=np.bool_)
    chosen_queries[queries] = True
    return data.take(np.flatnonzero(chosen_queries[data.queries.codes]))
