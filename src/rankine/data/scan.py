"""Files as a re-iterable stream of query-aligned blocks.

Readers give blocks of any size; data beside the rows (group sizes, weights) is attached, blocks are
cut where queries end, and a query that comes back is noticed.
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
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import (
    DataError,
    EmptyDataError,
    FileKindError,
    LimitError,
    ParameterError,
    ParseError,
    QueryOrderError,
    SchemaError,
)
from rankine.data.dataset import Dataset, check_weight, concat
from rankine.data.fingerprint import fingerprint
from rankine.data.formats import Format, choose_format, reader_of
from rankine.data.options import ReadOptions
from rankine.data.progress import read_ahead
from rankine.data.query_index import check_group
from rankine.data.sources import Source
from rankine.data.streams import LabelledStream


class SideData:
    """Hands group sizes and weights to blocks in row order, and checks that they fit the rows."""

    def __init__(self, options: ReadOptions) -> None:
        self._ends: NDArray[np.int64] | None = None
        if options.group is not None:
            self._ends = np.cumsum(_group_sizes(options.group))
            self._total = int(self._ends[-1]) if len(self._ends) else 0
        self._weight = None if options.sample_weight is None else _weights(options.sample_weight)
        self._row = 0

    def attach(self, block: Dataset) -> Dataset:
        """The block with its query numbers and weights."""
        start, stop = self._row, self._row + block.n_rows
        self._row = stop
        if self._ends is not None:
            if stop > self._total:
                raise self._misfit(f"at least {stop}")
            rows = np.arange(start, stop)
            block = replace(
                block, qid=np.searchsorted(self._ends, rows, side="right"), query_index=None
            )
        if self._weight is not None:
            if stop > len(self._weight):
                raise _weight_misfit(len(self._weight), f"at least {stop}")
            block = replace(block, weight=self._weight[start:stop])
        return block

    def finish(self) -> None:
        """Check that nothing is left over after the last row."""
        if self._ends is not None and self._row != self._total:
            raise self._misfit(str(self._row))
        if self._weight is not None and self._row != len(self._weight):
            raise _weight_misfit(len(self._weight), str(self._row))

    def _misfit(self, rows: str) -> SchemaError:
        return SchemaError(
            f"group sizes add up to {self._total} rows but the data has {rows}",
            fix="Pass sizes in row order, one per query, for all files together",
        )


def apply_side_data(data: Dataset, options: ReadOptions) -> Dataset:
    """Attach group sizes and weights to a whole data set."""
    side = SideData(options)
    data = side.attach(data)
    side.finish()
    return data


def _weight_misfit(count: int, rows: str) -> SchemaError:
    return SchemaError(f"{count} weights for {rows} rows", fix="Pass one weight per row")


def _group_sizes(group: Any) -> NDArray[np.int64]:
    if _is_path(group):
        return _read_numbers(group, integer=True).astype(np.int64)
    items = list(group)
    if items and all(_is_path(item) for item in items):
        return np.concatenate([_group_sizes(item) for item in items])
    return check_group(items) if items else np.zeros(0, dtype=np.int64)


def _weights(weight: Any) -> NDArray[np.float64]:
    if _is_path(weight):
        values = _read_numbers(weight, integer=False)
    else:
        values = np.asarray(weight, dtype=np.float64)
    return check_weight(values, len(values))


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


_COUNT = re.compile(rb"\d{1,18}")
_DECIMAL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _read_numbers(path: str | os.PathLike[str], *, integer: bool) -> NDArray[Any]:
    """One number a line, as LightGBM and XGBoost write them."""
    file = os.fspath(path)
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise DataError(
            f"cannot be opened: {error.strerror}", file=file, fix="Check the path"
        ) from error
    form = _COUNT if integer else _DECIMAL
    values = np.empty(len(lines), dtype=np.int64 if integer else np.float64)
    for k, line in enumerate(lines):
        text = line.strip()
        if not form.fullmatch(text):
            raise ParseError(
                f"{text[:40]!r} is not a {'row count' if integer else 'weight'}",
                file=file,
                line=k + 1,
                column=1,
                fix="Write one number a line",
            )
        values[k] = int(text) if integer else float(text)
    return values


def _sort_hint(sources: Sequence[str], query: str | None) -> str:
    """The command that groups some files, ready to be run."""
    first = Path(sources[0]) if sources else Path("IN")
    base, *suffixes = first.name.split(".")
    target = first.with_name(".".join([base, "sorted", *suffixes]))
    named = "" if query in (None, "qid") else f" --query {shlex.quote(str(query))}"
    files = " ".join(shlex.quote(str(name)) for name in (sources or ["IN"]))
    command = f"rankine sort {files} {shlex.quote(str(target))}{named}"
    return f"Group the rows by query: {command}"


def align(
    blocks: Iterator[Dataset], options: ReadOptions, guard: QueryGuard | None = None
) -> Iterator[Dataset]:
    """Regroup blocks so that each holds whole queries, at least ``block_rows`` rows if there are.

    The cut falls on the first query boundary at or after ``block_rows`` rows, so the blocks do not
    depend on how the input was cut.
    """
    pending: list[Dataset] = []
    waiting = 0  # rows in pending
    apart: Counter[str] = Counter()  # what is told of blocks whose rows were all skipped
    for block in blocks:
        if not block.n_rows:
            apart.update(block.read_counts)
            continue
        start = 0
        ends = run_ends(block.qid)
        if guard is not None:
            guard.see(block, ends)
        if pending and block.qid[0] != pending[-1].qid[-1] and waiting >= options.block_rows:
            yield concat(pending)
            pending, waiting = [], 0
        # The last run may go on in the next block: only the ends before it are known.
        known = ends[:-1]
        while (k := known.searchsorted(start + options.block_rows - waiting)) < len(known):
            pending.append(_piece(block, start, int(known[k])))
            yield concat(pending)
            pending, waiting, start = [], 0, int(known[k])
        pending.append(_piece(block, start, block.n_rows))
        waiting += block.n_rows - start
        _check_length(block, pending, options.max_query_rows)
    if pending:
        last = concat(pending)
        yield replace(last, read_counts=dict(apart + Counter(last.read_counts))) if apart else last


def _piece(block: Dataset, start: int, stop: int) -> Dataset:
    """Rows of a block; what the reader did is told with the first of them."""
    if start == 0 and stop == block.n_rows:
        return block
    piece = block.take(slice(start, stop))
    return replace(piece, read_counts={}) if start else piece


def run_ends(qid: NDArray[Any]) -> NDArray[np.int64]:
    """Ends of the runs of equal ids."""
    if len(qid) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.append(np.flatnonzero(qid[1:] != qid[:-1]) + 1, len(qid))


def _check_length(block: Dataset, pending: list[Dataset], limit: int) -> None:
    """Refuse a query whose rows would fill the memory."""
    last = block.qid[-1]
    rows = 0
    for part in reversed(pending):
        same = part.qid == last
        rows += int(same.sum())
        if not same.all():
            break
    if rows > limit:
        raise LimitError(
            f"query {last} has more than {limit} rows",
            file=_file(block),
            fix="Check the query ids, or pass a larger max_query_rows",
        )


class QueryGuard:
    """Notices a query that reappears in a stream, in one pass.

    Ids that only increase (or only decrease) prove themselves. Ids are remembered in case the
    order breaks: integers exactly, strings by 128 bits of BLAKE2b, at most ``max_queries`` of them
    (8 bytes each, 16 for strings). When there were more and the order breaks, the guard says so
    instead of guessing.
    """

    def __init__(self, max_queries: int, hint: str = "Group the rows by query") -> None:
        self._hint = hint
        self._limit = max_queries
        self._last: Any = None
        self._rising: bool | None = None
        self._monotone = True
        self._seen: list[NDArray[Any]] = []  # keys in parts, sorted once the order has broken
        self._proven = True
        self._used = 0
        self._complete = True

    def see(self, block: Dataset, ends: NDArray[np.int64]) -> None:
        """Take note of the runs of a block; raise at the first query that was seen before."""
        starts = np.concatenate([[0], ends[:-1]])
        if self._last is not None and block.qid[0] == self._last:
            starts = starts[1:]
        if len(starts) == 0:
            return
        ids = block.qid[starts]
        self._watch_order(ids)
        self._last = ids[-1]
        if self._complete:
            self._remember(block, starts, ids)
        if not self._complete and not self._monotone:
            raise LimitError(
                f"query ids stop being sorted after more than {self._limit} queries, "
                "so a query that comes back can no longer be noticed",
                file=_file(block),
                fix=f"{self._hint}; or pass a larger max_queries",
            )

    def _watch_order(self, ids: NDArray[Any]) -> None:
        if not self._monotone:
            return
        if self._last is not None:
            ids = np.concatenate([np.asarray([self._last]), ids])
        if len(ids) < 2:
            return
        rises = ids[1:] > ids[:-1]
        if self._rising is None:
            self._rising = bool(rises[0])
        self._monotone = bool((rises == self._rising).all())

    def _remember(self, block: Dataset, starts: NDArray[np.int64], ids: NDArray[Any]) -> None:
        room = self._limit - self._used
        keys = _keys(ids)[:room]
        if self._monotone:
            self._keep(keys)
        else:
            if self._proven:
                self._proven = False
                self._seen = [np.sort(np.concatenate(self._seen))] if self._seen else []
            again = self._seen_before(keys)
            if again.any():
                row = int(np.argmax(again))
                raise QueryOrderError(
                    f"query {ids[row]} comes back after other queries",
                    file=_file(block),
                    line=_line(block, int(starts[row])),
                    fix=self._hint,
                )
        self._used += len(keys)
        if len(ids) > room:
            self._complete = False
            self._seen = []

    def _seen_before(self, keys: NDArray[Any]) -> NDArray[np.bool_]:
        """Which keys came before; they are remembered."""
        order = np.argsort(keys, kind="stable")
        rising = keys[order]
        known = np.zeros(len(keys), dtype=np.bool_)
        known[1:] = rising[1:] == rising[:-1]
        for part in self._seen:
            places = np.minimum(np.searchsorted(part, rising), len(part) - 1)
            known |= part[places] == rising
        again = np.empty_like(known)
        again[order] = known
        self._keep(rising)
        return again

    def _keep(self, keys: NDArray[Any]) -> None:
        """Add a part. Each stays twice as long as the next: few to search, and few merges.

        Many small parts, one a block, would also keep what lies between them from being freed.
        """
        self._seen.append(keys)
        while len(self._seen) > 1 and len(self._seen[-2]) < 2 * len(self._seen[-1]):
            joined = np.concatenate(self._seen[-2:])
            self._seen[-2:] = [joined if self._proven else np.sort(joined, kind="stable")]


def _keys(ids: NDArray[Any]) -> NDArray[Any]:
    """Ids as fixed-width keys: integers as they are, strings by their digests."""
    if ids.dtype.kind == "i":
        return ids.astype(np.int64)
    digests = b"".join(
        hashlib.blake2b(str(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        for text in ids.tolist()
    )
    return np.frombuffer(digests, dtype="S16")


def _file(block: Dataset) -> str | None:
    return block.sources[-1] if block.sources else None


def _line(block: Dataset, row: int) -> int | None:
    return None if block.lines is None else int(block.lines[row])


def regroup(blocks: Iterable[Dataset], queries: int) -> Iterator[Dataset]:
    """Blocks of exactly ``queries`` queries in the same order; the last may be shorter.

    The input must be query-aligned, as ``Scan`` gives it, so the result does not depend on how
    the input was cut.
    """
    pending: list[Dataset] = []
    waiting = 0
    for block in blocks:
        first = 0
        while waiting + block.n_queries - first >= queries:
            last = first + queries - waiting
            pending.append(_part(block, first, last))
            yield concat(pending)
            pending, waiting, first = [], 0, last
        if first < block.n_queries:
            pending.append(_part(block, first, block.n_queries))
            waiting += block.n_queries - first
    if pending:
        yield concat(pending)


def _part(block: Dataset, first: int, last: int) -> Dataset:
    if first == 0 and last == block.n_queries:
        return block
    index = block.queries
    if index.rows is None:
        return block.take(np.arange(index.starts[first], index.starts[last]))
    return block.take_queries(np.arange(first, last))


class Scan(LabelledStream):
    """A data set read block by block, as often as needed, in memory that does not grow with it.

    Iterating yields ``Dataset`` blocks of about ``block_rows`` rows that never cut a query. A file
    that changed since the first pass is a ChangedDataError.

    Attributes
    ----------
    sources
        Names of the files.
    n_features
        Width of every block. When it was not given it is found by a first pass.
    read_counts
        The read_counts of all blocks, once a pass came to its end.
    """

    read_counts: Mapping[str, int] | None = None

    def __init__(self, sources: list[Source], options: ReadOptions) -> None:
        self._sources = sources
        self.options = options
        self.sources = tuple(source.name for source in sources)

    @cached_property
    def n_features(self) -> int:
        """Width of every block."""
        if self.options.n_features is not None:
            return self.options.n_features
        once = next((s for s in self._sources if not s.rereadable), None)
        if once is not None:
            raise ParameterError(
                f"{once.name} can be read only once, so its width cannot be found beforehand",
                fix="Pass n_features=",
            )
        return max(int(self._reader(s).measure(s, self.options)) for s in self._sources)

    @cached_property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features: as given, else as the first file says, else None."""
        if self.options.feature_names is not None:
            return tuple(cast("Sequence[str]", self.options.feature_names))
        first = self._sources[0]
        find = getattr(self._reader(first), "feature_names", None)
        return find(first, self.options) if find is not None and first.rereadable else None

    def blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """One pass over the files in query-aligned blocks."""
        options = replace(self.options, block_rows=block_rows or self.options.block_rows)
        guard = None
        if options.has_query_ids:
            guard = QueryGuard(options.max_queries, _sort_hint(self.sources, options.query))
        n_rows = 0
        read_counts: Counter[str] = Counter()
        with closing(read_ahead(self.raw_blocks(block_rows))) as blocks:
            for block in align(blocks, options, guard):
                n_rows += block.n_rows
                read_counts.update(block.read_counts)
                yield block
        self.read_counts = dict(read_counts)
        if n_rows == 0:
            raise EmptyDataError("no rows in " + ", ".join(self.sources[:3]), fix="Check the path")

    def raw_blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """One pass in blocks as the readers make them: queries may be cut and may come back."""
        options = replace(
            self.options,
            n_features=self.n_features,
            block_rows=block_rows or self.options.block_rows,
        )
        side = SideData(options)
        for source in self._sources:
            for block in self._reader(source).read_blocks(source, options):
                yield self._named(side.attach(block))
        side.finish()

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all rows, by one pass; that of the same data in memory."""
        return fingerprint(self.raw_blocks())

    def __iter__(self) -> Iterator[Dataset]:
        return self.blocks()

    def _named(self, block: Dataset) -> Dataset:
        """The block with the stream's feature names; a file with other names is refused."""
        if self.options.feature_names is not None:
            return replace(block, feature_names=self.feature_names)
        if self._sources[0].rereadable and block.feature_names != self.feature_names:
            raise SchemaError(
                f"the features are not called as in {self.sources[0]}",
                file=_file(block),
                fix="Choose the same columns in the same order with features=[...]",
            )
        return block

    @cached_property
    def whole(self) -> tuple[str, ...]:
        """Files of formats that are read whole or not at all."""
        return tuple(s.name for s in self._sources if not self._format(s).streams)

    def _format(self, source: Source) -> Format:
        return choose_format(source, self.options.format, source.head())

    def _reader(self, source: Source) -> Any:
        form = self._format(source)
        if not form.streams:
            raise FileKindError(
                f"{form.name} files are read whole, not as a stream",
                file=source.name,
                fix="Load it, or convert it first: rankine convert IN OUT.parquet",
            )
        return reader_of(form)

    def __repr__(self) -> str:
        return f"Scan({', '.join(self.sources[:3])}{', ...' if len(self.sources) > 3 else ''})"
