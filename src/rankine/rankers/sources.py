"""Sources: labelled lists in memory, as a stream or as partitions, behind one interface.

``classify`` returns the ``TrainingSource`` that reads what the user passed, and the pipeline
(``rankine.rankers.pipeline``) opens it. Problems are built from the rows of a ``MemorySource``, the
blocks of a ``StreamSource``, or the worker pool of a ``PartitionSource``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import CheckpointError, NoPairsError, ParameterError, SchemaError
from rankine.core.user_warnings import warn_user
from rankine.data.dataset import Dataset, check_weight, concat, drain, first_lists
from rankine.data.list_ids import pack_ids
from rankine.data.sources import is_table
from rankine.data.streams import LabelledPartitions, LabelledStream
from rankine.metrics.engine import align_query_weights
from rankine.rankers.clicks import PositionCorrection, QueryDivisor
from rankine.solvers.checkpoint import Checkpointer, CheckpointFolder
from rankine.transforms.scaling import ColumnStatistics, Scaling, measure_rows

if TYPE_CHECKING:
    from rankine.distributed.journal import Journal
    from rankine.distributed.partitions import PartitionedDataset
    from rankine.distributed.worker_pool import WorkerPool

#: Rows of a stream on which scaling and values for missing ones are measured.
STATISTICS_ROWS = 65_536
#: Number of rows on which the sizes of columns are compared.
UNEVEN_ROWS = 2_000
#: Rules for missing values that need no statistics of the rows.
_RULES_WITHOUT_STATISTICS = ("error", "bin", "zero", "query_min")
#: Fewest lists with pairs in a sample that is limited by its rows, unless there are not that many.
MIN_PAIRED_LISTS = 100
NO_CORRECTION = PositionCorrection()
#: Number of the random stream that draws queries.
_RESAMPLES = 0x424F4F54


class TrainingSource(ABC):
    """Labelled lists to learn from.

    Attributes
    ----------
    kind
        Name of the kind in ``Capabilities`` and in error messages.
    n_features
        Columns of the rows as they are learned from. ``measure`` adds columns that mark missing
        values and offsets of positions to the columns of the data.
    feature_names
        Names of the columns of the data, or None.
    log_record
        Record of what the fit read of a raw log (``rankine.logs``), or None.
    journal
        Results of finished steps, where checkpoints are kept as a journal.
    """

    kind: ClassVar[str]
    n_features: int
    feature_names: Sequence[str] | None
    log_record: Any = None
    journal: Journal | None = None
    _folder: CheckpointFolder | None = None
    _resume = False

    def __init__(self, correction: PositionCorrection, *, use_journal: bool) -> None:
        self.correction = correction
        self._use_journal = use_journal

    @abstractmethod
    def measure(self, scale: str | None, missing: str, earlier: Scaling | None = None) -> Scaling:
        """Measure scaling (None: no scaling) and missing-value rule, and apply them from now on.

        ``earlier`` is the scaling of a run that is continued.
        """

    def sample(self) -> Dataset:
        """Return the first lists before scaling, in memory."""
        raise ParameterError(
            "choosing needs rows in memory or a stream, and these are partitions",
            parameter="scale",
            fix="Use 'auto' or 'query', or choose on some of the files",
        )

    @abstractmethod
    def blocks(self) -> Iterator[Dataset]:
        """Read the rows once, ready to learn from."""

    @abstractmethod
    def query_weights(self, block: Dataset, first: int) -> NDArray[np.float64]:
        """Return the weight of each query of a block, whose first query is number ``first``.

        The source resolves ``query_weight`` of ``fit`` once, here. It is applied in
        one place per kind of solver, never the file of a loss:

        * ``losses.pair_queries.query_omega``: ``RankSVM``
        * ``LeastSquaresRisk.normalise`` in ``losses.least_squares``
        * ``rankers.additive_search.make_risk``: sums that do not depend on the number of queries
        * ``losses.domination.task``
        * ``samplers.draw.query_shares``: the probability that ``SPDRanker`` draws a query
        * ``solvers.one_pass``: the step of ``ElasticRanker`` on a list
        """

    @abstractmethod
    def identity(self) -> Any:
        """Return what must be the same when a fit is resumed."""

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """Return counts and file names for the model."""

    @abstractmethod
    def record_counts(self, **counts: Any) -> None:
        """Record counts that a run finds while it reads the rows."""

    def first_blocks(self) -> Iterator[Dataset]:
        """Read the first lists, on which defaults are chosen."""
        return first_lists(self.blocks())

    def map_blocks(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Call ``function(block, *arguments)`` for each block, in order."""
        for block in self.blocks():
            yield function(block, *arguments)

    def require_rereadable(self, reason: str) -> None:  # noqa: B027 - most sources are
        """Raise if the rows can be read only once."""

    def open_checkpoints(
        self,
        folder: str | Path,
        every: int,
        metadata: Mapping[str, Any],
        seed: int,
        *,
        resume: bool,
    ) -> int:
        """Open the folder of checkpoints; return the seed of the resumed run, or the given one.

        There are two kinds of checkpoints. A *journal* records results of finished steps, and a
        resumed run replays them from the beginning: partitions, and the search of tables. Otherwise
        a ``Checkpointer`` saves the state of the solver, and a resumed run starts from it. See
        ``rankine.solvers.checkpoint``.
        """
        if self._use_journal:
            # A deterministic run that replays recorded results ends with the same bits.
            from rankine.distributed.journal import Journal

            self.journal = Journal(folder, metadata, resume=resume)
            return self.journal.recall_or_record("seed", seed)
        self._folder = CheckpointFolder(folder, every)
        self._resume = resume
        if resume:
            return int(self._folder.latest().metadata["seed"])
        if self._folder.paths():
            raise CheckpointError(
                "the folder already holds checkpoints",
                file=str(folder),
                fix="Resume from them, or use an empty folder",
            )
        return seed

    def checkpointer(self, monitor: Any, metadata: Mapping[str, Any]) -> Checkpointer | None:
        """Return what the solver calls to save and restore its state; None without a folder.

        With a journal it is None as well: the journal saves the monitor along with its records.
        """
        if self.journal is not None:
            self.journal.monitor = monitor
        if self._folder is None:
            return None
        return Checkpointer(self._folder, metadata, self._resume, monitor)

    def close(self) -> None:
        """Write what the journal still holds in memory, however the fit ended."""
        if self.journal is not None:
            self.journal.flush()


class MemorySource(TrainingSource):
    """Rows in memory, with one weight per query."""

    kind = "memory"

    def __init__(
        self,
        data: Dataset,
        query_weight: Any = None,
        correction: PositionCorrection = NO_CORRECTION,
        *,
        threads: int | None = 1,
        use_journal: bool = False,
    ) -> None:
        super().__init__(correction, use_journal=use_journal)
        data = correction.apply(data)
        # ``data`` is replaced by scaled rows; measuring and checkpoints need the unscaled ones.
        self.data = data
        self._unscaled = data
        self._threads = threads
        self._counts: dict[str, Any] | None = None
        self.query_weight = resolve_query_weight(query_weight, data)
        self.query_weight = self.query_weight * correction.query_factors(data)
        self.n_features = data.n_features
        self.feature_names = data.feature_names
        if data.encoding is not None:
            self.log_record = data.encoding.start_record()
            self.log_record.add_block(data)

    def measure(self, scale: str | None, missing: str, earlier: Scaling | None = None) -> Scaling:
        """Measure scaling and missing-value rule; ``data`` is scaled from now on."""
        data = self._unscaled
        if scale == "none" and getattr(data.X, "format", "csr") == "csc":
            scale = None  # stored by columns, which the check for uneven columns cannot read
        if scale == "none" and missing in _RULES_WITHOUT_STATISTICS:
            # Only the warning of uneven columns needs rows, and a few are enough for that.
            weighted = take_some_rows(data)
        else:
            weighted = weight_rows_by_query(data, self.query_weight)
        n_measured = _count_measured(data.encoding, scale, data.n_features)
        statistics = ColumnStatistics(lambda: [weighted], n_measured, self._threads)
        scaling = measure_rows(scale, missing, statistics).widened(data.n_features)
        warn_uneven_columns(scaling, self.feature_names)
        if earlier is not None:
            scaling = scaling.following(earlier)
        return self.scale(replace(scaling, positions=self.correction.n_positions))

    def scale(self, scaling: Scaling) -> Scaling:
        """Apply a scaling of an earlier fit to ``data``."""
        self.data = scaling.prepare(self._unscaled)
        self.n_features = self.data.n_features
        return scaling

    def sample(self) -> Dataset:
        """Return all rows before scaling."""
        return self._unscaled

    def resample_queries(self, count: int, seed: int) -> Iterator[MemorySource]:
        """Return the same rows ``count`` times, each time with queries drawn with replacement.

        The weight of a query is multiplied by how often it was drawn.
        """
        weight, n_queries = self.query_weight, len(self.query_weight)
        rng = np.random.default_rng([seed, _RESAMPLES])
        for _ in range(count):
            drawn = rng.integers(0, n_queries, n_queries)
            resampled = copy(self)
            resampled.query_weight = weight * np.bincount(drawn, minlength=n_queries)
            yield resampled

    def blocks(self) -> Iterator[Dataset]:
        """Return all rows as one block."""
        yield self.data

    def query_weights(self, block: Dataset, first: int) -> NDArray[np.float64]:
        """Return the weight of each query of a block, whose first query is number ``first``."""
        return self.query_weight[first : first + block.n_queries]

    def identity(self) -> Any:
        """Return a digest of the rows."""
        return self._unscaled.fingerprint

    def record_counts(self, **counts: Any) -> None:
        """Record what a run has read of the rows, in place of what they hold."""
        self._counts = counts

    def metadata(self) -> dict[str, Any]:
        """Return counts and file names."""
        data = self.data
        counts = self._counts or {
            "rows": data.n_rows,
            "queries": data.n_queries,
            "queries_used": len(data.labels.queries_with_pairs),
            "pairs": data.labels.n_pairs,
        }
        metadata = {**counts, "sources": list(data.sources)}
        # The record of a raw log stores its lists itself.
        if self.log_record is None and data.n_rows:
            metadata["lists"] = pack_ids(data.queries.ids)
        return metadata


class StreamSource(TrainingSource):
    """Query-aligned blocks, read as often as needed and never held all at once."""

    kind = "stream"

    def __init__(
        self,
        stream: Any,
        query_weight: Any = None,
        correction: PositionCorrection = NO_CORRECTION,
        *,
        use_journal: bool = False,
    ) -> None:
        super().__init__(correction, use_journal=use_journal)
        if not isinstance(stream, LabelledStream):
            stream = UserStream(stream)
        self.stream: LabelledStream = stream
        self._rereadable = not (isinstance(stream, UserStream) and stream.is_iterator)
        # The features of a raw log may have to be measured before they can be counted.
        encoding = stream.log_encoding()
        self.n_features = stream.n_features
        self.feature_names = stream.feature_names
        if encoding is not None:
            self.log_record = encoding.start_record()
            # A run may stop early; the record then reads the rest of the log by itself.
            self.log_record.remaining_blocks = stream
        self._query_weight = query_weight
        if query_weight is not None and not isinstance(query_weight, Mapping):
            self._query_weight = check_weight(query_weight, len(query_weight), "query_weight")
        self._scaling = Scaling("none")
        self._counts: dict[str, Any] = {}
        #: First blocks, kept so that the first pass need not read them again, and the iterator that
        #: goes on behind them; None before they are needed, and once a pass has begun.
        self._buffered: list[Dataset] = []
        self._reading: Iterator[Dataset] | None = None
        #: Missing-value rule for the check of uneven columns on the first block that is read.
        self._check_first_block: str | None = None

    def measure(self, scale: str | None, missing: str, earlier: Scaling | None = None) -> Scaling:
        """Measure "standard" and "maxabs" on all rows, other scalings on some first lists."""
        needs_all_rows = scale in ("standard", "maxabs")
        needs_no_statistics = missing in _RULES_WITHOUT_STATISTICS
        if needs_all_rows:
            self.require_rereadable(f"scale={scale!r} must see all rows first")
        if scale == "none" and needs_no_statistics:
            # The warning of uneven columns can wait for the first block: no extra reading.
            scale, self._check_first_block = None, missing
        sample: list[Dataset] = []
        if not needs_all_rows and (scale in ("auto", "none") or not needs_no_statistics):
            blocks = first_lists(self._first_raw_blocks(), n_rows=STATISTICS_ROWS)
            sample = list(self._weighted_rows(blocks))

        def rows() -> Iterable[Dataset]:
            return self._weighted_rows(self.stream) if needs_all_rows else sample

        n_measured = _count_measured(self.stream.log_encoding(), scale, self.n_features)
        scaling = measure_rows(scale, missing, ColumnStatistics(rows, n_measured))
        scaling = scaling.widened(self.n_features)
        warn_uneven_columns(scaling, self.feature_names)
        if earlier is not None:
            scaling = scaling.following(earlier)
        self._scaling = replace(scaling, positions=self.correction.n_positions)
        self.n_features += self._scaling.n_indicators + self.correction.n_columns
        return self._scaling

    def _first_raw_blocks(self) -> Iterator[Dataset]:
        """Yield blocks from the first one on, and keep them for the first pass."""
        yield from self._buffered
        if self._reading is None:
            self._reading = iter(self.stream)
        for block in self._reading:
            self._buffered.append(block)
            yield block

    def _raw_blocks(self) -> Iterator[Dataset]:
        """Read the stream once; the first pass goes on behind the blocks that are kept."""
        reading, self._reading = self._reading, None
        yield from drain(self._buffered)
        yield from self.stream if reading is None else reading

    def _weighted_rows(self, blocks: Iterable[Dataset]) -> Iterator[Dataset]:
        first = 0
        for block in blocks:
            corrected = self.correction.apply(block)
            yield weight_rows_by_query(corrected, self.query_weights(corrected, first))
            first += block.n_queries

    def _prepare(self, block: Dataset) -> Dataset:
        return self._scaling.prepare(self.correction.apply(block))

    def sample(self) -> Dataset:
        """Return the first lists before scaling; they are kept to be learned from."""
        first = first_lists(self._first_raw_blocks())
        return concat([self.correction.apply(block) for block in first])

    def first_blocks(self) -> Iterator[Dataset]:
        """Read the first lists; they are kept to be learned from."""
        yield from map(self._prepare, first_lists(self._first_raw_blocks()))

    def require_rereadable(self, reason: str) -> None:
        """Raise if the stream can be read only once."""
        if not self._rereadable:
            raise ParameterError(
                f"this stream can be read only once, and {reason}", fix="Pass rankine.scan(path)"
            )

    def blocks(self) -> Iterator[Dataset]:
        """Read the stream once, scaled."""
        for block in self._raw_blocks():
            if self._check_first_block is not None:
                self._warn_if_uneven(block, self._check_first_block)
                self._check_first_block = None
            if self.log_record is not None:
                self.log_record.add_block(block)
            yield self._prepare(block)
        if self.log_record is not None:
            self.log_record.remaining_blocks = None

    def _warn_if_uneven(self, block: Dataset, missing: str) -> None:
        rows = take_some_rows(block)
        statistics = ColumnStatistics(lambda: [rows], rows.n_features)
        warn_uneven_columns(measure_rows("none", missing, statistics), self.feature_names)

    def query_weights(self, block: Dataset, first: int) -> NDArray[np.float64]:
        """Return the weight of each query of a block, whose first query is number ``first``."""
        factors = self.correction.query_factors(block)
        if not isinstance(self._query_weight, np.ndarray):
            return factors * resolve_query_weight(self._query_weight, block, allow_zero=True)
        weights = self._query_weight[first : first + block.n_queries]
        if len(weights) < block.n_queries:
            raise SchemaError(
                f"there are {len(self._query_weight)} weights, but the stream has more queries",
                parameter="query_weight",
                fix="Give every query a weight",
            )
        return factors * weights

    def identity(self) -> Any:
        """Return names and sizes of the files."""
        paths = [Path(name) for name in self.stream.sources]
        sizes = [path.stat().st_size if path.is_file() else None for path in paths]
        return [list(file) for file in zip(self.stream.sources, sizes, strict=True)]

    def record_counts(self, **counts: Any) -> None:
        """Record what a run has read of the stream."""
        self._counts = counts

    def metadata(self) -> dict[str, Any]:
        """Return recorded counts and file names."""
        return {**self._counts, "sources": list(self.stream.sources)}


class PartitionSource(TrainingSource):
    """Partitions of whole queries, processed by workers where they are."""

    kind = "partitions"

    def __init__(
        self,
        partitions: PartitionedDataset,
        correction: PositionCorrection = NO_CORRECTION,
        *,
        needs_pairs: bool = True,
    ) -> None:
        super().__init__(correction, use_journal=True)
        self.partitions = partitions
        self.n_features = partitions.n_features
        self.feature_names = partitions.feature_names
        self.measured = partitions.measure()
        if needs_pairs and self.measured.pairs == 0:
            raise NoPairsError(
                "no query of any partition holds two different labels",
                fix="Check labels and query ids; a query needs a better and a worse row",
            )
        if partitions.encoding is not None:
            self.log_record = partitions.encoding.start_record()
            self.log_record.add_partitions(partitions)
        self.scaling = Scaling("none")

    def measure(
        self,
        scale: str | None,
        missing: str,
        earlier: Scaling | None = None,  # noqa: ARG002 - runs over partitions store no state
    ) -> Scaling:
        """Measure "standard" and "maxabs" on all rows, other scalings on the first lists."""
        from rankine.distributed.partition_tasks import PartitionColumnStatistics, RawRowsTask

        # Partitions beyond the first 10,000 lists are not read for a scaling measured on those.
        n_lists, measured = None, self.partitions
        if scale not in ("standard", "maxabs"):
            n_lists = self.measured.sample
            sampled = zip(measured.partitions, n_lists, strict=True)
            measured = replace(
                measured, partitions=tuple(partition for partition, count in sampled if count)
            )
        pool = measured.worker_pool(RawRowsTask(), self.journal)
        n_measured = _count_measured(self.partitions.encoding, scale, self.n_features)
        statistics = PartitionColumnStatistics(pool, n_measured, n_lists)
        scaling = measure_rows(scale, missing, statistics).widened(self.n_features)
        warn_uneven_columns(scaling, self.feature_names)
        self.scaling = replace(scaling, positions=self.correction.n_positions)
        self.n_features += self.scaling.n_indicators + self.correction.n_columns
        return self.scaling

    def worker_pool(self, task: Any) -> WorkerPool:
        """Return a pool of workers that prepare every partition by ``task``."""
        weights = self.correction.position_weights
        if weights and self.correction.divisor != QueryDivisor.NOTHING:
            raise ParameterError(
                "on partitions the loss of a query would be divided by these weights",
                parameter="propensity",
                fix="Use normalization='pair', for SPD sampling='uniform'",
            )
        if weights:
            from rankine.distributed.partition_tasks import WeightedRowsTask

            task = WeightedRowsTask(task, weights)
        return self.partitions.worker_pool(task, self.journal)

    def blocks(self) -> Iterator[Dataset]:
        """Copy the rows of one partition after the other to this process."""
        for partition in self.partitions.partitions:
            yield from self._apply(replace(self.partitions, partitions=(partition,)), _identity)

    def map_blocks(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Call a function with each partition's rows on the workers; results come in order."""
        # In groups, since the results of all partitions need not fit into memory here.
        for group in self.partitions.groups():
            yield from self._apply(group, function, *arguments)

    def _apply(self, partitions: PartitionedDataset, function: Any, *arguments: Any) -> list[Any]:
        from rankine.distributed.partition_tasks import RawRowsTask

        pool = partitions.worker_pool(RawRowsTask())
        return pool.each(
            "apply", _apply_to_prepared, self.scaling, self.correction, function, arguments
        )

    def query_weights(self, block: Dataset, first: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the weight of each query of a block; ``query_weight`` is refused before."""
        return self.correction.query_factors(block)

    def record_counts(self, **counts: Any) -> None:
        """Keep the counts from the first pass over the partitions."""

    def identity(self) -> Any:
        """Return a digest of the files and of where they are cut."""
        return self.partitions.fingerprint

    def metadata(self) -> dict[str, Any]:
        """Return counts and file names."""
        counts = {
            "rows": self.measured.rows,
            "queries": self.measured.queries,
            "queries_used": self.measured.queries_used,
            "pairs": self.measured.pairs,
        }
        if self.log_record is not None:
            counts["missing_values"] = self.measured.missing
        return {
            **counts,
            "sources": list(self.partitions.sources),
            "partitions": self.partitions.n_partitions,
        }


def _apply_to_prepared(
    data: Dataset, scaling: Scaling, correction: PositionCorrection, function: Any, arguments: Any
) -> Any:
    """Call a function with training rows, on a worker."""
    return function(scaling.prepare(correction.apply(data)), *arguments)


def _identity(data: Dataset) -> Dataset:
    return data


# ------------------------------------------------------------------ what the user passed
@runtime_checkable
class BlockIterable(Protocol):
    """Blocks of a user's class that has the number of columns as an attribute."""

    n_features: int

    def __iter__(self) -> Iterator[Dataset]: ...


class UserStream(LabelledStream):
    """Blocks of a user's own class, or of an iterator, which can be read only once."""

    def __init__(self, blocks: Any) -> None:
        if not isinstance(blocks, BlockIterable):
            raise ParameterError(
                "an iterable of blocks without the attribute n_features cannot be read as a stream",
                fix="Pass rankine.scan(path), or call partial_fit on each block",
            )
        self._blocks = blocks
        self._feature_names = getattr(blocks, "feature_names", None)
        self.is_iterator = isinstance(blocks, Iterator)
        self.sources = tuple(getattr(blocks, "sources", ()))

    @property
    def n_features(self) -> int:
        """Number of columns of every block."""
        return int(self._blocks.n_features)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, or None."""
        names: tuple[str, ...] | None = self._feature_names
        return names

    def __iter__(self) -> Iterator[Dataset]:
        return iter(self._blocks)


def classify(X: Any) -> type[TrainingSource]:
    """Return the source that reads what the user passed as ``X``."""
    if isinstance(X, LabelledPartitions):
        return PartitionSource
    # Readers of record batches are tables, although they are iterators.
    if isinstance(X, Dataset) or is_table(X):
        return MemorySource
    # Last, since the check for attributes reads the width of a user's stream.
    if isinstance(X, (LabelledStream, Iterator, BlockIterable)):
        return StreamSource
    return MemorySource


def adapt_raw_log(X: Any, supported: Sequence[str], *, for_tables: bool) -> Any:
    """Return a raw log in the form a ranker reads; anything else unchanged.

    A ranker ``for_tables`` gets the log's columns instead of features. A streamed log is loaded
    for a ranker that supports rows in memory but no streams.
    """
    if isinstance(X, (Dataset, LabelledPartitions)):
        if X.encoding is None or not for_tables:
            return X
        if isinstance(X, Dataset):
            return X.encoding.for_tables([X]).encode(X)
        partitions: Any = X
        return partitions.encoded(partitions.encoding.for_tables(partitions))
    if not isinstance(X, LabelledStream) or not X.is_raw_log:
        return X
    if for_tables:
        return X.for_tables()
    return X.load() if "stream" not in supported and "memory" in supported else X


# ---------------------------------------------------------------------- weights and samples
def take_some_rows(data: Dataset) -> Dataset:
    """Take at most ``UNEVEN_ROWS`` rows, evenly spaced."""
    step = -(-data.n_rows // UNEVEN_ROWS)
    return data.take(np.arange(0, data.n_rows, step)) if step > 1 else data


def read_first_lists(
    source: TrainingSource, n_rows: int | None = None
) -> tuple[Dataset, NDArray[np.float64]]:
    """Return the first 10,000 lists as they are learned from, and their query weights.

    With ``n_rows``, return only the first lists that hold this number of rows in lists with pairs,
    of which there are at least ``MIN_PAIRED_LISTS``.
    """
    blocks: list[Dataset] = []
    weights: list[NDArray[np.float64]] = []
    n_queries = n_paired = n_paired_rows = 0
    for block in source.first_blocks():
        weights.append(source.query_weights(block, n_queries))
        blocks.append(block)
        n_queries += block.n_queries
        if n_rows is None:
            continue
        paired = block.labels.queries_with_pairs
        counts = n_paired + np.arange(1, len(paired) + 1)
        rows = n_paired_rows + np.cumsum(block.queries.sizes[paired])
        enough = np.flatnonzero((rows >= n_rows) & (counts >= MIN_PAIRED_LISTS))
        if len(enough):
            n_lists = int(paired[enough[0]]) + 1
            blocks[-1], weights[-1] = block.take_queries(np.arange(n_lists)), weights[-1][:n_lists]
            break
        n_paired += len(paired)
        n_paired_rows += int(block.queries.sizes[paired].sum())
    if not blocks:
        raise NoPairsError("the data holds no lists", fix="Check the path")
    return concat(blocks), np.concatenate(weights)


def _count_measured(encoding: Any, scale: str | None, n_features: int) -> int:
    """Return the number of first columns to measure: "auto" leaves hashed ones as they are."""
    if encoding is None or encoding.spec.tables or scale in ("standard", "maxabs"):
        return n_features
    return int(encoding.spec.hash_start)


def weight_rows_by_query(data: Dataset, query_weight: NDArray[np.float64]) -> Dataset:
    """Apply query weights to the row weights."""
    weight = query_weight[data.queries.codes]
    if data.weight is not None:
        weight = weight * data.weight
    return replace(data, weight=weight, query_index=data.queries)


def warn_uneven_columns(scaling: Scaling, names: Sequence[str] | None) -> None:
    """Warn of columns that differ widely in size and are left unscaled."""
    if not scaling.uneven:
        return

    def describe(column: int, deviation: float) -> str:
        name = f"column {column}" if names is None else repr(str(names[column]))
        return f"{name} {deviation:.3g}"

    *largest, smallest = (describe(column, deviation) for column, deviation in scaling.uneven)
    warn_user(
        f"scale='none' with columns of very different sizes (standard deviations: "
        f"{', '.join(largest)}; {smallest}): the small ones can hardly be learned from. "
        "Use scale='auto'"
    )


def resolve_query_weight(
    query_weight: Any, data: Dataset, *, allow_zero: bool = False
) -> NDArray[np.float64]:
    """Return one weight per query, in the order of ``data.queries.ids``.

    With ``allow_zero`` all may be zero, as in one block of a stream.
    """
    index = data.queries
    if query_weight is None:
        return np.ones(index.n_queries)
    query_weight = align_query_weights(query_weight, index)
    if allow_zero and not np.any(query_weight):
        return np.zeros(index.n_queries)
    return check_weight(query_weight, index.n_queries, "query_weight")
