"""Where labelled lists come from, and what a ranker can do with them.

A *source* is rows in memory, a stream or partitions. It has ``kind``, ``n_features``,
``feature_names`` and ``encoding`` (how raw columns became features, or None), and answers

``record(folder, every, facts, seed, resume) -> seed``
    opens the checkpoints of a fit; the seed is that of the run that is resumed;
``measure(scale, missing) -> Scaling``
    finds what a scaling (None: none at all) and missing values need to know of the rows, and
    prepares them from then on;
``identity()``, ``facts()``
    what a resumed run must find again, and what a model remembers of its training data;
``close()``
    ends the fit, however it ended.

Problems are built from ``data`` and ``query_weight``; from ``blocks()`` (or
``map_blocks(function)``, worked out where the rows are) and ``weights(block, first)``; or from
``worker_pool(task)``.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import CheckpointError, NoPairsError, ParameterError, SchemaError
from rankine.data.dataset import Dataset, check_weight, concat, first_lists
from rankine.metrics.engine import align_query_weights
from rankine.samplers.draw import pair_masses
from rankine.solvers.checkpoint import CheckpointFolder
from rankine.transforms.clicks import (
    ContextWeights,
    apply_position_weights,
    remove_position_weights,
)
from rankine.transforms.scaling import ColumnStatistics, Scaling, measure_rows

if TYPE_CHECKING:
    from rankine.distributed.journal import Journal
    from rankine.distributed.partitions import PartitionedDataset
    from rankine.distributed.worker_pool import WorkerPool


#: The kinds of sources: in words, and how a user gets one.
SOURCES = {
    "memory": ("rows in memory", "rankine.load(...)"),
    "stream": ("a stream", "rankine.scan(...)"),
    "partitions": ("partitions", "rankine.distributed.scan(...)"),
}
#: What may be asked of a ranker, as the end of "it cannot ...".
_ACTS = {
    "fit": "be fitted to {}",
    "path": "walk a path of models over {}",
    "checkpoint": "keep checkpoints of a fit to {}",
    "query_weight": "take query_weight with {}",
    "record_at": "record_at steps of a fit to {}",
}


@dataclass(frozen=True)
class Capabilities:
    """What a ranker can do, and with which sources ("memory", "stream", "partitions").

    Attributes
    ----------
    fit, path, checkpoint, query_weight, record_at
        Sources that ``fit`` and ``path`` take, of which checkpoints can be kept, and with which
        these options mean something.
    partial
        Whether ``partial_fit`` learns from one block after another.
    path_options
        Options of ``path`` beyond those of every path.
    comparisons
        What it makes of ``Dataset.from_pairs``, as the end of "it ...".
    """

    fit: tuple[str, ...] = ("memory",)
    path: tuple[str, ...] = ()
    checkpoint: tuple[str, ...] = ()
    query_weight: tuple[str, ...] = ("memory",)
    record_at: tuple[str, ...] = ()
    partial: bool = False
    path_options: tuple[str, ...] = ()
    comparisons: str = "learns from comparisons as lists of two, and refuses weights and ties"

    def require(self, act: str, kind: str, ranker: str) -> None:
        """Refuse in one sentence what the ranker cannot do with a source of this kind."""
        able: tuple[str, ...] = getattr(self, act)
        if kind in able:
            return
        others = [f"{words} ({how})" for name, (words, how) in SOURCES.items() if name in able]
        raise ParameterError(
            f"{ranker} cannot {_ACTS[act].format(SOURCES[kind][0])}",
            fix=f"Use {' or '.join(others)}" if others else "Leave it out, or use another ranker",
        )


def source_kind(X: Any) -> str:
    """Which kind of source this is, asked without importing what it needs."""
    if hasattr(X, "partitions") and hasattr(X, "runner"):
        return "partitions"
    if isinstance(X, Iterator):
        return "stream"
    blocks = hasattr(X, "n_features") and hasattr(X, "__iter__")
    return "stream" if blocks and not isinstance(X, Dataset) else "memory"


class Clicks(NamedTuple):
    """How training rows are corrected for the positions they were shown at.

    Attributes
    ----------
    inverse
        Weight of a relevant row by position (and context); empty: 1 everywhere.
    positions
        Positions with an offset of their own; 0 for none.
    divisor
        What the ranker divides each query's loss by: the weight of its "pairs" of two labels, of
        any two rows ("ties"), of its "gains", of its "rows" or the "square" of that; "" for
        nothing. The inverse
        weights must not be divided out (that of a list's only click would vanish), so the query
        weighs more in their place: its loss is divided by what the divisor was without them.
    """

    inverse: tuple[float, ...] | ContextWeights = ()
    positions: int = 0
    divisor: str = ""

    @property
    def n_columns(self) -> int:
        """Columns that the offsets add."""
        return max(self.positions - 1, 0)

    def of_queries(self, block: Dataset) -> NDArray[np.float64] | float:
        """Factors of the query weights of weighed rows."""
        if not (self.inverse and self.divisor):
            return 1.0
        now, before = (
            self._divisor(d) for d in (block, remove_position_weights(block, self.inverse))
        )
        return np.divide(now, before, out=np.ones(len(now)), where=before > 0)

    def _divisor(self, block: Dataset) -> NDArray[np.float64]:
        if self.divisor in ("pairs", "ties"):
            return pair_masses(block, ties=self.divisor == "ties")
        index = block.queries
        weight: Any = block.weight
        if self.divisor == "gains":
            lowest = np.full(index.n_queries, np.inf)
            np.minimum.at(lowest, index.codes, block.y)
            weight = weight * (np.exp2(block.y - lowest[index.codes]) - 1.0)
        sums: Any = np.bincount(index.codes, weight, minlength=index.n_queries)
        return np.asarray(sums**2 if self.divisor == "square" else sums, dtype=np.float64)


#: Rows that are looked at for columns that differ wildly.
UNEVEN_ROWS = 2_000
#: Rules of missing values that need not see the rows first.
_UNSEEN = ("error", "bin", "zero", "query_min")
#: Rows as they are.
_AS_THEY_ARE = Clicks()


def for_tables(log: Any) -> Any:
    """A raw log whose rows are the columns of tables, wherever it is."""
    if hasattr(log, "for_tables"):
        return log.for_tables()
    if isinstance(log, Dataset):
        return log.encoding.for_tables([log]).encode(log)
    encoding = log.encoding.for_tables(log)
    return log.encoded(encoding) if hasattr(log, "runner") else _Encoded(log, encoding)


class _Encoded:
    """A stream of a raw log, encoded in another way."""

    def __init__(self, stream: Any, encoding: Any) -> None:
        self.stream, self.encoding = stream, encoding
        self.n_features = encoding.spec.n_features
        self.feature_names = encoding.feature_names
        self.sources = getattr(stream, "sources", ())

    def __iter__(self) -> Iterator[Dataset]:
        return map(self.encoding.encode, self.stream)


class _KeepsAnswers:
    """Checkpoints that are answers: what a deterministic run was told before it ended."""

    journal: Journal | None = None

    def keep_answers(
        self, folder: str | Path, facts: Mapping[str, Any], seed: int, resume: bool
    ) -> int:
        """Open the journal; the seed of the run that is resumed, or the given one."""
        from rankine.distributed.journal import Journal

        self.journal = Journal(folder, facts, resume=resume)
        return self.journal.recall_or_record("seed", seed)

    def close(self) -> None:
        """What was answered is on disk at the end, however it ends."""
        if self.journal is not None:
            self.journal.flush()


class _KeepsFolder(_KeepsAnswers, ABC):
    """Checkpoints of rows that are learned from in this process."""

    folder: CheckpointFolder | None = None
    resume = False
    #: Whether checkpoints are answers, and not the state of one long run.
    asks = False

    def open_checkpoints(
        self,
        folder: str | Path | None,
        every: int,
        facts: Mapping[str, Any],
        seed: int,
        resume: bool,
    ) -> int:
        """Open the folder; the seed of the run that is resumed, or the given one."""
        if folder is None:
            return seed
        if self.asks:
            return self.keep_answers(folder, facts, seed, resume)
        self.folder = CheckpointFolder(folder, every)
        self.resume = resume
        if not resume and self.folder.paths():
            raise CheckpointError(
                "the folder already holds checkpoints",
                file=str(folder),
                fix="Resume from them, or use an empty folder",
            )
        return int(self.folder.latest().metadata["seed"]) if resume else seed

    @abstractmethod
    def blocks(self) -> Iterator[Dataset]:
        """One reading, ready for training."""

    def map_blocks(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """What a function of each block gives, in order."""
        for block in self.blocks():
            yield function(block, *arguments)


class MemorySource(_KeepsFolder):
    """Rows in memory, with one weight per query."""

    kind = "memory"

    def __init__(
        self,
        data: Dataset,
        query_weight: Any = None,
        clicks: Clicks = _AS_THEY_ARE,
        threads: int | None = 1,
    ) -> None:
        data = apply_position_weights(data, clicks.inverse)
        self.data = data
        self._threads = threads
        self.query_weight = resolve_query_weight(query_weight, data) * clicks.of_queries(data)
        self.n_features = data.n_features
        self._clicks = clicks
        self.feature_names = data.feature_names
        self.encoding: Any = None
        if data.encoding is not None:
            self.encoding = data.encoding.start_record()
            self.encoding.add_block(data)
        self._unscaled = data
        self._seen: dict[str, Any] | None = None

    def measure(self, scale: str | None, missing: str) -> Scaling:
        """Measure; ``data`` is scaled from then on."""
        data = self._unscaled
        if scale == "none" and getattr(data.X, "format", "csr") == "csc":
            scale = None  # columns are not looked at row by row
        if scale == "none" and missing in _UNSEEN:
            counted = _some_rows(data)
        else:
            counted = weigh_queries(data, self.query_weight)
        columns = ColumnStatistics(lambda: [counted], data.n_features, self._threads)
        scaling = measure_rows(scale, missing, columns)
        warn_uneven(scaling, self.feature_names)
        return self.scale(replace(scaling, positions=self._clicks.positions))

    def scale(self, scaling: Scaling) -> Scaling:
        """Scale the rows as given."""
        self.data = scaling.prepare(self._unscaled)
        self.n_features = self.data.n_features
        return scaling

    def blocks(self) -> Iterator[Dataset]:
        """All rows at once."""
        yield self.data

    def weights(self, block: Dataset, first: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Query weights of a block."""
        return self.query_weight

    def identity(self) -> Any:
        """What a resumed run must find again."""
        return self._unscaled.fingerprint

    def record_counts(self, **seen: Any) -> None:
        """Say what a run has seen of the rows, in place of what they hold."""
        self._seen = seen

    def metadata(self) -> dict[str, Any]:
        """Counts and files."""
        data = self.data
        seen = self._seen or {
            "rows": data.n_rows,
            "queries": data.n_queries,
            "queries_used": len(data.labels.queries_with_pairs),
            "pairs": data.labels.n_pairs,
        }
        return {**seen, "sources": list(data.sources)}


class StreamSource(_KeepsFolder):
    """Query-aligned blocks, read as often as needed and never held all at once."""

    kind = "stream"

    def __init__(self, scan: Any, query_weight: Any = None, clicks: Clicks = _AS_THEY_ARE) -> None:
        if not hasattr(scan, "n_features"):
            raise ParameterError(
                "blocks that do not know their n_features are no stream",
                fix="Pass rankine.scan(path), or call partial_fit on each block",
            )
        self.scan = scan
        self.n_features = int(scan.n_features)
        self.feature_names = getattr(scan, "feature_names", None)
        encoding = getattr(scan, "encoding", None)
        self.encoding: Any = None
        if encoding is not None:
            self.encoding = encoding.start_record()
            self.encoding.remaining_blocks = scan
        self._weight = query_weight
        if query_weight is not None and not isinstance(query_weight, Mapping):
            self._weight = check_weight(query_weight, len(query_weight), "query_weight")
        self._clicks = clicks
        self._scaling = Scaling("none")
        self._seen: dict[str, Any] = {}
        #: Blocks that were taken from a stream that can be read only once.
        self._taken: list[Dataset] = []
        #: The rule of missing values where the first block is looked at as it is learned from.
        self._look: str | None = None

    def measure(self, scale: str | None, missing: str) -> Scaling:
        """Measure: "standard" and "maxabs" on all rows, else on the first lists alone."""
        if scale in ("standard", "maxabs"):
            self.require_again(f"scale={scale!r} must see all rows first")
        elif isinstance(self.scan, Iterator) and (scale == "auto" or missing not in _UNSEEN):
            self._taken = list(first_lists(self.scan, whole=True))
        if scale == "none" and missing in _UNSEEN:
            scale, self._look = None, missing
        if scale in ("standard", "maxabs"):
            asked = ColumnStatistics(lambda: self._rows(self.scan), self.n_features)
        elif scale in ("auto", "none") or missing not in _UNSEEN:
            sample = list(self._rows(first_lists(self._taken or self.scan)))
            asked = ColumnStatistics(lambda: sample, self.n_features)
        else:
            asked = ColumnStatistics(lambda: (), self.n_features)  # nothing will be asked
        scaling = measure_rows(scale, missing, asked)
        warn_uneven(scaling, self.feature_names)
        self._scaling = replace(scaling, positions=self._clicks.positions)
        self.n_features += self._scaling.n_marks + self._clicks.n_columns
        return self._scaling

    def _rows(self, blocks: Iterable[Dataset]) -> Iterator[Dataset]:
        """Rows to measure on, with what each counts."""
        first = 0
        for block in blocks:
            weighed = apply_position_weights(block, self._clicks.inverse)
            yield weigh_queries(weighed, self.weights(weighed, first))
            first += block.n_queries

    def sample(self) -> Iterator[Dataset]:
        """The first lists, scaled, before they are read to learn from them."""
        if isinstance(self.scan, Iterator) and not self._taken:
            self._taken = list(first_lists(self.scan, whole=True))
        for block in first_lists(self._taken or self.scan):
            yield self._scaling.prepare(apply_position_weights(block, self._clicks.inverse))

    def require_again(self, why: str) -> None:
        """Refuse a stream that can be read only once."""
        if isinstance(self.scan, Iterator):
            raise ParameterError(
                f"this stream can be read only once, and {why}", fix="Pass rankine.scan(path)"
            )

    def blocks(self) -> Iterator[Dataset]:
        """One reading, scaled."""
        for block in chain(self._taken, self.scan):
            if self._look is not None:
                self._look_at(block, self._look)
                self._look = None
            if self.encoding is not None:
                self.encoding.add_block(block)
            yield self._scaling.prepare(apply_position_weights(block, self._clicks.inverse))
        if self.encoding is not None:
            self.encoding.remaining_blocks = None

    def _look_at(self, block: Dataset, missing: str) -> None:
        """Warn of columns that differ wildly in a block."""
        rows = _some_rows(block)
        columns = ColumnStatistics(lambda: [rows], rows.n_features)
        warn_uneven(measure_rows("none", missing, columns), self.feature_names)

    def weights(self, block: Dataset, first: int) -> NDArray[np.float64]:
        """Query weights of a block whose first query is number ``first`` of the reading."""
        factors = self._clicks.of_queries(block)
        if not isinstance(self._weight, np.ndarray):
            return factors * resolve_query_weight(self._weight, block, all_of_them=False)
        found = self._weight[first : first + block.n_queries]
        if len(found) < block.n_queries:
            raise SchemaError(
                f"query_weight holds {len(self._weight)} weights, and the stream more queries",
                fix="Give every query a weight",
            )
        return factors * found

    def identity(self) -> Any:
        """Names and sizes of the files."""
        return [
            [name, Path(name).stat().st_size if Path(name).is_file() else None]
            for name in getattr(self.scan, "sources", ())
        ]

    def record_counts(self, **seen: Any) -> None:
        """Say what a run has seen of the stream."""
        self._seen = seen

    def metadata(self) -> dict[str, Any]:
        """What was noted, and the files."""
        return {**self._seen, "sources": list(getattr(self.scan, "sources", ()))}


class PartitionSource(_KeepsAnswers):
    """Partitions, asked where they are."""

    kind = "partitions"

    def __init__(
        self, parts: PartitionedDataset, clicks: Clicks = _AS_THEY_ARE, *, pairs: bool = True
    ) -> None:
        self.parts = parts
        self.encoding = None if parts.encoding is None else parts.encoding.start_record()
        self._clicks = clicks
        self.n_features = parts.n_features
        self.feature_names = parts.feature_names
        self.measured = parts.measure()
        if pairs and self.measured.pairs == 0:
            raise NoPairsError(
                "no query of any partition holds two different labels",
                fix="Check labels and query ids; a query needs a better and a worse row",
            )
        if self.encoding is not None:
            self.encoding.add_partitions(parts)
        self.scaling = Scaling("none")

    def measure(self, scale: str | None, missing: str) -> Scaling:
        """Measure, as streams do; tasks take ``scaling`` with them."""
        from rankine.distributed.partition_tasks import PartitionColumnStatistics, RawRowsTask

        lists, parts = None, self.parts
        if scale not in ("standard", "maxabs"):
            lists = self.measured.sample
            looked_at = (
                partition for partition, count in zip(parts.partitions, lists, strict=True) if count
            )
            parts = replace(parts, partitions=tuple(looked_at))
        pool = parts.worker_pool(RawRowsTask(), self.journal)
        scaling = measure_rows(scale, missing, PartitionColumnStatistics(pool, lists))
        warn_uneven(scaling, self.feature_names)
        self.scaling = replace(scaling, positions=self._clicks.positions)
        self.n_features += self.scaling.n_marks + self._clicks.n_columns
        return self.scaling

    def worker_pool(self, task: Any) -> WorkerPool:
        """All partitions, prepared by a task."""
        if self._clicks.inverse and self._clicks.divisor:
            raise ParameterError(
                "on partitions the loss of a query would be divided by the weights of propensity",
                fix="Use normalization='pair', for SPD sampling='uniform'",
            )
        if self._clicks.inverse:
            from rankine.distributed.partition_tasks import WeightedRowsTask

            task = WeightedRowsTask(task, self._clicks.inverse)
        return self.parts.worker_pool(task, self.journal)

    def blocks(self) -> Iterator[Dataset]:
        """The rows of one partition after the other, brought here."""
        for partition in self.parts.partitions:
            alone = replace(self.parts, partitions=(partition,))
            yield from self._apply(alone, _as_they_are)

    def map_blocks(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """What a function of each partition's rows gives, worked out where they are, in order."""
        for some in self.parts.groups():
            yield from self._apply(some, function, *arguments)

    def _apply(self, parts: PartitionedDataset, function: Any, *arguments: Any) -> list[Any]:
        from rankine.distributed.partition_tasks import RawRowsTask

        pool = parts.worker_pool(RawRowsTask())
        return pool.each(
            "apply", _of_prepared, self.scaling, self._clicks.inverse, function, arguments
        )

    def weights(self, block: Dataset, first: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Query weights of a block."""
        return np.ones(block.n_queries) * self._clicks.of_queries(block)

    def record_counts(self, **seen: Any) -> None:
        """Partitions were counted before."""

    def identity(self) -> Any:
        """Digest of the files and of where they are cut."""
        return self.parts.fingerprint

    def open_checkpoints(
        self,
        folder: str | Path | None,
        every: int,
        facts: Mapping[str, Any],
        seed: int,
        resume: bool,
    ) -> int:
        """Keep answers in a journal; the seed of the run that is resumed, or the given one."""
        del every  # answers are kept as they come
        return seed if folder is None else self.keep_answers(folder, facts, seed, resume)

    def metadata(self) -> dict[str, Any]:
        """Counts and files."""
        return {
            "rows": self.measured.rows,
            "queries": self.measured.queries,
            "queries_used": self.measured.queries_used,
            "pairs": self.measured.pairs,
            **({} if self.encoding is None else {"missing_values": self.measured.missing}),
            "sources": list(self.parts.sources),
            "partitions": self.parts.n_partitions,
        }


def _of_prepared(
    data: Dataset, scaling: Scaling, inverse: tuple[float, ...], function: Any, arguments: Any
) -> Any:
    """A function of training rows, on a worker."""
    return function(scaling.prepare(apply_position_weights(data, inverse)), *arguments)


def _as_they_are(data: Dataset) -> Dataset:
    return data


def _some_rows(data: Dataset) -> Dataset:
    """At most ``UNEVEN_ROWS``, evenly spaced."""
    step = -(-data.n_rows // UNEVEN_ROWS)
    return data.take(np.arange(0, data.n_rows, step)) if step > 1 else data


def sample_lists(source: Any) -> tuple[Dataset, NDArray[np.float64]]:
    """The first 10,000 lists of a source as it trains on them, and their weights."""
    blocks: list[Dataset] = []
    weights: list[NDArray[np.float64]] = []
    found = source.sample() if source.kind == "stream" else first_lists(source.blocks())
    for block in found:
        weights.append(source.weights(block, sum(map(len, weights)))[: block.n_queries])
        blocks.append(block)
    if not blocks:
        raise NoPairsError("the data holds no lists", fix="Check the path")
    return concat(blocks), np.concatenate(weights)


def weigh_queries(data: Dataset, query_weight: NDArray[np.float64]) -> Dataset:
    """Rows that weigh what they and their queries do."""
    weight = query_weight[data.queries.codes]
    if data.weight is not None:
        weight = weight * data.weight
    return replace(data, weight=weight, query_index=data.queries)


def warn_uneven(scaling: Scaling, names: Sequence[str] | None) -> None:
    """Warn of columns that differ wildly and are left as they are."""
    if not scaling.uneven:
        return
    *large, (least, smallest) = scaling.uneven

    def name(j: int) -> str:
        return f"column {j}" if names is None else repr(str(names[j]))

    shown = ", ".join(f"{name(j)} {size:.3g}" for j, size in large)
    warnings.warn(
        f"scale='none' with columns of very different sizes (standard deviations: {shown}; "
        f"{name(least)} {smallest:.3g}): the small ones can hardly be learned from. "
        "Use scale='auto'",
        UserWarning,
        stacklevel=5,
    )


def resolve_query_weight(
    query_weight: Any, data: Dataset, *, all_of_them: bool = True
) -> NDArray[np.float64]:
    """One weight per query, in the order of ``data.queries.ids``.

    A part of the queries, unlike ``all_of_them``, may weigh nothing.
    """
    index = data.queries
    if query_weight is None:
        return np.ones(index.n_queries)
    query_weight = align_query_weights(query_weight, index)
    if all_of_them or np.any(query_weight):
        return check_weight(query_weight, index.n_queries, "query_weight")
    return np.zeros(index.n_queries)
