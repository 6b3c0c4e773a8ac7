"""Stream files as query-aligned blocks, as often as needed.

Readers yield blocks of any size. This module attaches data that are stored apart from the rows
(group sizes, weights), cuts blocks where queries end, and refuses a query that reappears.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_group
from rankine.core.errors import (
    DataError,
    LimitError,
    ParameterError,
    ParseError,
    QueryOrderError,
    SchemaError,
)
from rankine.core.stores import read_bytes
from rankine.data.dataset import Dataset, check_weight, concat, drain
from rankine.data.formats import choose_format, reader_of
from rankine.data.options import ReadOptions
from rankine.data.progress import read_ahead
from rankine.data.selection import no_rows_error, select_sources
from rankine.data.sources import Source
from rankine.data.streams import LabelledStream


class SideData:
    """Attaches group sizes and weights to blocks in row order, and checks that they fit."""

    def __init__(self, options: ReadOptions) -> None:
        #: Row after the last of each query, or None where rows name their queries.
        self._query_ends: NDArray[np.int64] | None = None
        if options.group is not None:
            sizes = check_group(_read_group_sizes(options.group))
            self._query_ends = np.cumsum(sizes)
            self._grouped_rows = int(sizes.sum())
        self._weight: NDArray[np.float64] | None = None
        if options.sample_weight is not None:
            self._weight = _read_weights(options.sample_weight)
        self._row = 0

    def attach(self, block: Dataset) -> Dataset:
        """Return the next block with its query numbers and weights."""
        start, stop = self._row, self._row + block.n_rows
        self._row = stop
        if self._query_ends is not None:
            if stop > self._grouped_rows:
                raise self._group_error(f"at least {stop}")
            numbers = np.searchsorted(self._query_ends, np.arange(start, stop), side="right")
            block = replace(block, qid=numbers, query_index=None)
        if self._weight is not None:
            if stop > len(self._weight):
                raise _weight_error(len(self._weight), f"at least {stop}")
            block = replace(block, weight=self._weight[start:stop])
        return block

    def finish(self) -> None:
        """Check that no sizes or weights are left over after the last row."""
        if self._query_ends is not None and self._row != self._grouped_rows:
            raise self._group_error(str(self._row))
        if self._weight is not None and self._row != len(self._weight):
            raise _weight_error(len(self._weight), str(self._row))

    def _group_error(self, n_rows: str) -> SchemaError:
        return SchemaError(
            f"the sizes add up to {self._grouped_rows} rows but the data has {n_rows}",
            parameter="group",
            fix="Pass sizes in row order, one per query, for all files together",
        )


def attach_side_data(data: Dataset, options: ReadOptions) -> Dataset:
    """Attach group sizes and weights to a whole data set."""
    side_data = SideData(options)
    data = side_data.attach(data)
    side_data.finish()
    return data


def _weight_error(n_weights: int, n_rows: str) -> SchemaError:
    return SchemaError(
        f"{n_weights} weights for {n_rows} rows",
        parameter="sample_weight",
        fix="Pass one weight per row",
    )


def _read_group_sizes(group: Any) -> NDArray[np.int64]:
    if _is_path(group):
        return _read_numbers(group, _ROW_COUNT, "row count", int).astype(np.int64)
    # A list may hold sizes or the names of files of sizes, one for each file of rows.
    items = list(group)
    if not items:
        return np.zeros(0, dtype=np.int64)
    if all(_is_path(item) for item in items):
        return np.concatenate([_read_group_sizes(item) for item in items])
    return check_group(items)


def _read_weights(weight: Any) -> NDArray[np.float64]:
    if _is_path(weight):
        values = _read_numbers(weight, _DECIMAL, "weight", float)
    else:
        values = np.asarray(weight, dtype=np.float64)
    return check_weight(values, len(values))


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


_ROW_COUNT = re.compile(rb"\d{1,18}")
_DECIMAL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _read_numbers(
    path: str | os.PathLike[str], pattern: re.Pattern[bytes], what: str, number_type: type
) -> NDArray[Any]:
    """Read one number a line, as LightGBM and XGBoost write them."""
    file = os.fspath(path)
    try:
        lines = read_bytes(path).splitlines()
    except OSError as error:
        raise DataError(
            f"cannot be opened: {error.strerror}", file=file, fix="Check the path"
        ) from error
    values: NDArray[Any] = np.empty(len(lines), dtype=number_type)
    for k, line in enumerate(lines):
        text = line.strip()
        if not pattern.fullmatch(text):
            raise ParseError(
                f"{text[:40]!r} is not a {what}",
                file=file,
                line=k + 1,
                column=1,
                fix="Write one number a line",
            )
        values[k] = number_type(text)
    return values


def sort_hint(sources: Sequence[str], query: str | None, time: str | None = None) -> str:
    """Return the fix for rows that are not grouped, or lists that are not in order of time.

    For files it is a command that can be run.
    """
    advice = "Group the rows by query"
    if time is not None:
        advice = "Sort the lists by their earliest time"
    # A stream or a frame has no name that a command could take.
    if not sources or str(sources[0]).startswith("<"):
        return f"{advice}, the rows of a list together"
    folder, slash, name = str(sources[0]).rpartition("/")
    stem, *suffixes = name.split(".")
    target = f"{folder}{slash}" + ".".join([stem, "sorted", *suffixes])
    files = " ".join(shlex.quote(str(name)) for name in sources)
    command = f"rankine sort {files} {shlex.quote(str(target))}"
    if query not in (None, "qid"):
        command += f" --query {shlex.quote(str(query))}"
    if time is not None:
        command += f" --by-time {shlex.quote(time)}"
    return f"{advice}: {command}"


def align(
    blocks: Iterator[Dataset], options: ReadOptions, guard: QueryGuard | None = None
) -> Iterator[Dataset]:
    """Regroup blocks so that each has whole queries and, except the last, ``block_rows`` rows.

    A block ends at the first query boundary at or after ``block_rows`` rows, so the blocks do not
    depend on how the input was cut.
    """
    pending: list[Dataset] = []
    pending_rows = 0
    counts_without_rows: Counter[str] = Counter()  # of blocks whose rows were all skipped
    for block in blocks:
        if not block.n_rows:
            counts_without_rows.update(block.read_counts)
            continue
        start = 0
        ends = run_ends(block.qid)
        if guard is not None:
            guard.check(block, ends)
        # The pending query ended with its block, so the pending rows can be cut here.
        if pending and block.qid[0] != pending[-1].qid[-1] and pending_rows >= options.block_rows:
            yield concat(drain(pending))
            pending_rows = 0
        # The last query may continue in the next block, so its end is not known yet.
        query_ends = ends[:-1]
        while True:
            k = query_ends.searchsorted(start + options.block_rows - pending_rows)
            if k == len(query_ends):
                break
            end = int(query_ends[k])
            pending.append(_take_rows(block, start, end))
            yield concat(drain(pending))
            pending_rows, start = 0, end
        pending.append(_take_rows(block, start, block.n_rows))
        pending_rows += block.n_rows - start
        _check_query_length(block, pending, options.max_query_rows)
    if pending:
        whole = concat(drain(pending))
        if counts_without_rows:
            counts = dict(counts_without_rows + Counter(whole.read_counts))
            whole = replace(whole, read_counts=counts)
        yield whole


def _take_rows(block: Dataset, start: int, stop: int) -> Dataset:
    """Return rows of a block; only the part with row 0 gets the reader's counts."""
    if start == 0 and stop == block.n_rows:
        return block
    rows = block.take(slice(start, stop))
    if start:
        return replace(rows, read_counts={})
    return rows


def run_ends(qid: NDArray[Any]) -> NDArray[np.int64]:
    """Return the ends of the runs of equal ids."""
    if len(qid) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.append(np.flatnonzero(qid[1:] != qid[:-1]) + 1, len(qid))


def _check_query_length(block: Dataset, pending: list[Dataset], max_rows: int) -> None:
    """Refuse a query whose rows would exhaust the memory."""
    last_id = block.qid[-1]
    n_rows = 0
    # Only the last parts can belong to the last query.
    for part in reversed(pending):
        is_last = part.qid == last_id
        n_rows += int(is_last.sum())
        if not is_last.all():
            break
    if n_rows > max_rows:
        raise LimitError(
            f"query {last_id} has more than {max_rows} rows",
            parameter="max_query_rows",
            file=_file_of(block),
            fix="Check the query ids, or raise the limit",
        )


class QueryGuard:
    """Raises an error for a query that reappears in a stream, in one pass.

    Ids that only increase (or only decrease) cannot reappear. In case the order breaks, ids are
    stored: integers exactly, strings as 128 bits of BLAKE2b, at most ``max_queries`` of them (8
    bytes each, 16 for strings). If there were more and the order breaks, that is an error, because
    a query that reappears could no longer be detected.

    Parameters
    ----------
    max_queries
        Maximum number of ids to store.
    fix
        Fix to show in the errors.
    """

    def __init__(self, max_queries: int, fix: str = "Group the rows by query") -> None:
        self._fix = fix
        self._max_queries = max_queries
        self._last_id: Any = None
        self._increasing: bool | None = None  # unknown before the second id
        self._monotone = True
        self._key_parts: list[NDArray[Any]] = []  # each sorted once the order has broken
        self._parts_sorted = False
        self._n_keys = 0
        self._complete = True

    def check(self, block: Dataset, ends: NDArray[np.int64]) -> None:
        """Record the queries of a block, whose rows end at ``ends``; refuse one that reappears."""
        starts = np.concatenate([[0], ends[:-1]])
        if self._last_id is not None and block.qid[0] == self._last_id:
            starts = starts[1:]
        if len(starts) == 0:
            return
        ids = block.qid[starts]
        self._check_order(ids)
        self._last_id = ids[-1]
        if self._complete:
            self._store_ids(block, starts, ids)
        if not self._complete and not self._monotone:
            raise LimitError(
                f"query ids stop being sorted after more than {self._max_queries} queries, "
                "so a query that reappears can no longer be detected",
                parameter="max_queries",
                file=_file_of(block),
                fix=f"{self._fix}; or raise the limit",
            )

    def _check_order(self, ids: NDArray[Any]) -> None:
        # The order broke before: ids are compared with all stored ones from then on.
        if not self._monotone:
            return
        if self._last_id is not None:
            ids = np.concatenate([np.asarray([self._last_id]), ids])
        if len(ids) < 2:
            return
        increases = ids[1:] > ids[:-1]
        if self._increasing is None:
            self._increasing = bool(increases[0])
        self._monotone = bool((increases == self._increasing).all())

    def _store_ids(self, block: Dataset, starts: NDArray[np.int64], ids: NDArray[Any]) -> None:
        n_free = self._max_queries - self._n_keys
        keys = _to_keys(ids)[:n_free]
        # In increasing order no id can repeat, so ids are only stored.
        if self._monotone:
            self._add_part(keys)
        else:
            if not self._parts_sorted:
                self._parts_sorted = True
                if self._key_parts:
                    self._key_parts = [np.sort(np.concatenate(self._key_parts))]
            repeated = self._mark_repeated(keys)
            if repeated.any():
                row = int(np.argmax(repeated))
                raise QueryOrderError(
                    f"query {ids[row]} reappears after other queries",
                    file=_file_of(block),
                    line=_line_of(block, int(starts[row])),
                    fix=self._fix,
                )
        self._n_keys += len(keys)
        # Incomplete ids prove nothing, so their memory is freed.
        if len(ids) > n_free:
            self._complete = False
            self._key_parts = []

    def _mark_repeated(self, keys: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which keys were stored before, and store all of them."""
        order = np.argsort(keys, kind="stable")
        sorted_keys = keys[order]
        sorted_repeated = np.zeros(len(keys), dtype=np.bool_)
        sorted_repeated[1:] = sorted_keys[1:] == sorted_keys[:-1]
        for part in self._key_parts:
            positions = np.minimum(np.searchsorted(part, sorted_keys), len(part) - 1)
            sorted_repeated |= part[positions] == sorted_keys
        repeated = np.empty_like(sorted_repeated)
        repeated[order] = sorted_repeated
        self._add_part(sorted_keys)
        return repeated

    def _add_part(self, keys: NDArray[Any]) -> None:
        """Add a part, and merge parts so that each is at least twice as long as the next.

        There are then few parts to search and few merges. Many small parts, one per block, would
        also keep the memory between them from being freed.
        """
        self._key_parts.append(keys)
        while len(self._key_parts) > 1 and len(self._key_parts[-2]) < 2 * len(self._key_parts[-1]):
            merged = np.concatenate(self._key_parts[-2:])
            if self._parts_sorted:
                merged = np.sort(merged, kind="stable")
            self._key_parts[-2:] = [merged]


def _to_keys(ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids as fixed-width keys: integers unchanged, strings by their digests."""
    if ids.dtype.kind == "i":
        return ids.astype(np.int64)
    digests = b"".join(
        hashlib.blake2b(str(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        for text in ids.tolist()
    )
    return np.frombuffer(digests, dtype="S16")


def _file_of(block: Dataset) -> str | None:
    return next(reversed(block.sources), None)


def _line_of(block: Dataset, row: int) -> int | None:
    if block.lines is None:
        return None
    return int(block.lines[row])


def regroup(blocks: Iterable[Dataset], n_queries: int) -> Iterator[Dataset]:
    """Yield blocks of exactly ``n_queries`` queries in the same order; the last may be shorter.

    The input must be query-aligned, as ``Scan`` yields it, so the result does not depend on how
    the input was cut.
    """
    pending: list[Dataset] = []
    pending_queries = 0
    for block in blocks:
        first = 0
        # A long block may hold several blocks of the new size.
        while pending_queries + block.n_queries - first >= n_queries:
            last = first + n_queries - pending_queries
            pending.append(_take_queries(block, first, last))
            yield concat(drain(pending))
            pending_queries, first = 0, last
        if first < block.n_queries:
            pending.append(_take_queries(block, first, block.n_queries))
            pending_queries += block.n_queries - first
    if pending:
        yield concat(drain(pending))


def _take_queries(block: Dataset, first: int, last: int) -> Dataset:
    if first == 0 and last == block.n_queries:
        return block
    index = block.queries
    if index.rows is None:
        # Row numbers copy: a slice would keep the whole block in memory.
        return block.take(np.arange(index.starts[first], index.starts[last]))
    return block.take_queries(np.arange(first, last))


class Scan(LabelledStream):
    """A data set read block by block, as often as needed, in memory that does not grow with it.

    Iterating yields ``Dataset`` blocks of about ``block_rows`` rows that never cut a query. A file
    that changed since it was opened is a ChangedDataError.

    Attributes
    ----------
    options
        How the files are read.
    sources
        Names of the files.
    inputs
        The files, or tables in memory.
    n_excluded_files
        Number of files that are not read, since their Hive columns exclude all rows.
    read_counts
        The sum of the blocks' ``read_counts``, once a pass has reached the end; None before.
    """

    def __init__(
        self,
        sources: list[Source],
        options: ReadOptions,
        n_features: int,
        feature_names: tuple[str, ...] | None,
        n_excluded_files: int = 0,
    ) -> None:
        self.inputs = sources
        self.n_excluded_files = n_excluded_files
        self.options = options
        self.sources = tuple(source.name for source in sources)
        self._n_features = n_features
        self._feature_names = feature_names
        self.read_counts: Mapping[str, int] | None = None

    @property
    def n_features(self) -> int:
        """Width of every block."""
        return self._n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, or None."""
        return self._feature_names

    @classmethod
    def open(cls, sources: list[Source], options: ReadOptions) -> Self:
        """Open files: measure their width where ``options`` leave it open, and read their names.

        Text is read once to measure it; names are read from the first file.
        """
        sources, n_excluded_files = select_sources(sources, options)
        n_features = options.n_features
        if n_features is None:
            for source in sources:
                if not source.has_header:
                    raise ParameterError(
                        f"{source.name} can be read only once, so its width cannot be measured",
                        parameter="n_features",
                        fix="Pass the number of features",
                    )
            n_features = max(int(_reader(s, options).measure(s, options)) for s in sources)
        names: Any = options.feature_names
        if names is None and sources[0].has_header:
            names = _reader(sources[0], options).feature_names(sources[0], options)
        names = None if names is None else tuple(names)
        return cls(sources, options, n_features, names, n_excluded_files)

    def select_files(self, inputs: list[Source]) -> Scan:
        """Return a stream of some of the files."""
        return Scan(inputs, self.options, self.n_features, self.feature_names)

    def blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """Yield query-aligned blocks, in one pass over the files."""
        options = replace(self.options, block_rows=block_rows or self.options.block_rows)
        guard = None
        if options.has_query_ids:
            guard = QueryGuard(options.max_queries, sort_hint(self.sources, options.query))
        n_rows = 0
        read_counts: Counter[str] = Counter()
        # Closing stops the reading thread when the caller leaves the loop early.
        with closing(read_ahead(self.raw_blocks(block_rows))) as blocks:
            for block in align(blocks, options, guard):
                n_rows += block.n_rows
                read_counts.update(block.read_counts)
                yield block
        self.read_counts = dict(read_counts)
        if n_rows == 0:
            raise no_rows_error(self.sources, options)

    def raw_blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """Yield blocks as the readers return them: queries may be cut and may reappear."""
        options = replace(
            self.options,
            n_features=self.n_features,
            block_rows=block_rows or self.options.block_rows,
        )
        side_data = SideData(options)
        n_excluded_files = self.n_excluded_files
        for source in self.inputs:
            for block in _reader(source, options).read_blocks(source, options):
                rows = self._name_features(side_data.attach(block))
                if n_excluded_files:
                    counts = {**block.read_counts, "excluded_files": n_excluded_files}
                    rows = replace(rows, read_counts=counts)
                    n_excluded_files = 0
                yield rows
        side_data.finish()

    def __iter__(self) -> Iterator[Dataset]:
        return self.blocks()

    def _name_features(self, block: Dataset) -> Dataset:
        """Return the block with the stream's feature names; refuse a file with other names."""
        if self.options.feature_names is not None:
            return replace(block, feature_names=self.feature_names)
        # A pipe has no names to compare with: reading them would use up its first rows.
        if self.inputs[0].has_header and block.feature_names != self.feature_names:
            raise SchemaError(
                f"the features have other names than in {self.sources[0]}",
                parameter="features",
                file=_file_of(block),
                fix="Choose the same columns in the same order",
            )
        return block

    def __repr__(self) -> str:
        names = list(self.sources[:3])
        if len(self.sources) > 3:
            names.append("...")
        return f"Scan({', '.join(names)})"


def _reader(source: Source, options: ReadOptions) -> Any:
    return reader_of(choose_format(source, options.format, source.head()))
