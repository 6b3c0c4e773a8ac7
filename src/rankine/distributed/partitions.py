"""Cut files into partitions: descriptions of rows, which workers read when they need them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from rankine.core.errors import ParameterError, SchemaError
from rankine.core.stores import is_url
from rankine.data.formats import choose_format
from rankine.data.open import read_names
from rankine.data.options import ReadKeywords, ReadOptions
from rankine.data.scan import Scan
from rankine.data.selection import no_rows_error, select_sources
from rankine.data.sort import SortReport, sort_file
from rankine.data.sources import Source, find_sources
from rankine.data.streams import LabelledPartitions, LabelledStream
from rankine.distributed.file_partitions import FileCuts, Partition, cut_file, file_state
from rankine.distributed.journal import Journal
from rankine.distributed.partition_tasks import RawRowsTask, TotalCounts, measure
from rankine.distributed.runners import DaskRunner, LocalRunner, require_dask
from rankine.distributed.worker_pool import PartitionTask, WorkerPool, token_of

__all__ = ["PARTITION_BYTES", "PartitionedDataset", "repartition", "scan"]


#: Memory of a partition: small enough for a worker with one gigabyte, large enough for Dask.
PARTITION_BYTES = 64 * 2**20
#: Number of partitions whose results are held in this process at the same time.
GROUP_SIZE = 16


@dataclass(frozen=True, eq=False)
class PartitionedDataset(LabelledPartitions):
    """Partitions of whole queries, on a Dask cluster or on this machine; see ``scan``.

    Attributes
    ----------
    partitions
        The partitions, in order.
    n_features, feature_names
        Columns of every partition.
    sources
        Files.
    runner
        Computes partial results of the partitions.
    encoding
        How the columns of a raw log become features, or None.
    read_counts
        Rows and files that do not meet the condition ``where``.
    """

    partitions: tuple[Partition, ...]
    n_features: int
    feature_names: tuple[str, ...] | None
    sources: tuple[str, ...]
    runner: Any = field(repr=False)
    encoding: Any = field(default=None, repr=False)
    read_counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return len(self.partitions)

    @property
    def fingerprint(self) -> str:
        """Digest of the files (size and time of last change) and of where they are cut."""
        # The files are not read: their size and time of change stand for their content.
        labels = {part.label.text for part in self.partitions if part.label is not None}
        encoding_key = None
        if self.encoding is not None:
            encoding_key = self.encoding.key
        return token_of(
            [[part.file, part.rows, part.state] for part in self.partitions],
            self.n_features,
            self.feature_names,
            encoding_key,
            *sorted(labels),
        )

    def worker_pool(self, task: PartitionTask, journal: Journal | None = None) -> WorkerPool:
        """Return a pool that runs a task on all partitions."""
        return WorkerPool(self.runner, self.partitions, task, journal)

    def measure(self) -> TotalCounts:
        """Read everything once: count, and check that every query is in one partition."""
        return measure(self.worker_pool(RawRowsTask()), self.partitions)

    def groups(self) -> Iterator[PartitionedDataset]:
        """Split into groups of partitions, for results that are large in this process."""
        for first in range(0, self.n_partitions, GROUP_SIZE):
            yield replace(self, partitions=self.partitions[first : first + GROUP_SIZE])

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function with the rows of every partition, and return the results in order."""
        return list(self.worker_pool(RawRowsTask()).each("apply", function, *arguments))

    def encoded(self, encoding: Any) -> PartitionedDataset:
        """Return the same rows of a raw log with their columns as features."""
        return replace(
            self,
            partitions=tuple(replace(part, encoding=encoding) for part in self.partitions),
            n_features=encoding.spec.n_features,
            feature_names=encoding.feature_names,
            encoding=encoding,
        )

    def on(self, client: Any = None, *, timeout: float = 600.0) -> PartitionedDataset:
        """Return the same partitions on another cluster (None: on this machine)."""
        return replace(self, runner=_make_runner(client, timeout))

    def __len__(self) -> int:
        return len(self.partitions)


def scan(
    path: Any,
    *,
    client: Any = None,
    partition_bytes: int = PARTITION_BYTES,
    timeout: float = 600.0,
    **options: Unpack[ReadKeywords],
) -> PartitionedDataset:
    """Cut files into partitions of whole queries to train on.

    Parquet files are cut between row groups where their footers prove that no query is cut, else
    at the next query; other files are one partition each. The cuts depend only on the files and on
    ``partition_bytes``, so a model has the same bits on any number of workers, on this
    machine, and after any failure.

    Parameters
    ----------
    path
        Files, as for ``rankine.load``, a stream of ``rankine.scan``, read as it reads them, or a
        log of ``rankine.logs.scan``. Every worker must have the files under the same path.
    client
        A ``distributed.Client``; None processes the partitions one by one on this machine, in
        memory that does not grow with the data.
    partition_bytes
        Approximate memory of a partition. A worker needs several times as much.
    timeout
        Seconds without a finished task after which training fails with a ClusterError.
    **options
        Fields of ``ReadOptions``, as for ``rankine.scan``.

    Examples
    --------
    >>> import numpy as np, rankine, rankine.distributed, tempfile
    >>> data = rankine.Dataset.from_arrays(np.eye(4), [1, 0, 0, 1], [1, 1, 2, 2])
    >>> folder = tempfile.mkdtemp()
    >>> data.save(folder + "/a.parquet")
    >>> parts = rankine.distributed.scan(folder + "/*.parquet")
    >>> rankine.RankSVM(l2=0.2).fit(parts).coef_.round(2).tolist()
    [0.5, -0.5, -0.5, 0.5]
    """
    if isinstance(path, LabelledStream) and hasattr(path, "to_partitions"):
        cutting = {"client": client, "partition_bytes": partition_bytes, "timeout": timeout}
        partitioned: PartitionedDataset = path.to_partitions(**cutting, **options)
        return partitioned
    n_excluded_before = 0
    if isinstance(path, Scan):
        n_excluded_before = path.n_excluded_files
        scan_options = {f.name: getattr(path.options, f.name) for f in fields(path.options)}
        # A stream's options apply to its partitions unless they are given again.
        path, options = list(path.inputs), {**scan_options, "progress": False, **options}  # type: ignore[typeddict-item]
    for name, value in (("partition_bytes", partition_bytes), ("timeout", timeout)):
        if value <= 0:
            raise ParameterError(
                f"{value} is not positive", parameter=name, fix="Use the default, or a larger value"
            )
    reading = ReadOptions.make(**{"progress": False, **options})
    _reject_side_data(reading)
    names = read_names(reading.feature_names)
    reading = replace(reading, feature_names=None, progress=False)
    if names is not None and reading.n_features is None:
        reading = reading.with_features(len(names))
    files_of_path = [_absolute_source(source) for source in find_sources(path)]
    sources, n_excluded_files = select_sources(files_of_path, reading)
    n_excluded_files += n_excluded_before
    files = [source.name for source in sources]
    runner = _make_runner(client, timeout)
    cut = partial(cut_file, options=reading, partition_bytes=int(partition_bytes))
    cuts = runner.map(cut, sources)
    if names is None:
        names = _common_names(files, cuts)
    n_features = max(cut.n_features for cut in cuts)
    # One width for all partitions, so that partial results can be added.
    reading = reading.with_features(n_features)
    partitions: list[Partition] = []
    excluded = Counter({"excluded_files": n_excluded_files})
    for source, file_cuts in zip(sources, cuts, strict=True):
        # Workers compare it, and refuse a file that changed since it was cut.
        state = file_state(source)
        excluded["excluded_rows"] += file_cuts.n_excluded
        for rows, nbytes in zip(file_cuts.ranges, file_cuts.nbytes, strict=True):
            number = len(partitions)
            partitions.append(Partition(number, source, rows, state, nbytes, reading, names))
    if not partitions:
        raise no_rows_error(files, reading)
    return PartitionedDataset(
        tuple(partitions), n_features, names, tuple(files), runner, read_counts=dict(+excluded)
    )


def _make_runner(client: Any, timeout: float) -> LocalRunner:
    if client is None:
        return LocalRunner()
    distributed = require_dask()
    if not isinstance(client, distributed.Client):
        raise ParameterError(
            f"is a {type(client).__name__}, not a distributed.Client",
            parameter="client",
            fix="Pass distributed.Client(address), or cluster.get_client()",
        )
    return DaskRunner(client, timeout)


def _absolute_source(source: Source) -> Source:
    """Return a file as every worker can open it."""
    if source.filesystem is not None:
        return source
    if source.path is None:
        raise ParameterError(
            f"{source.name} is not a file, so it has no partitions",
            fix="Save it to a file that every worker can read",
        )
    path = source.path.absolute()
    return replace(source, name=str(path), path=path, stamp=None)


def _reject_side_data(options: ReadOptions) -> None:
    for name in ("group", "single_query", "sample_weight"):
        if getattr(options, name):
            raise ParameterError(
                "applies to one file and cannot be cut with partitions",
                parameter=name,
                fix="Store query ids and weights as columns: rankine convert IN OUT.parquet",
            )
    if options.query is None:
        raise ParameterError(
            "partitions need query ids", parameter="query", fix="Name the column of query ids"
        )


def _common_names(files: list[str], cuts: list[FileCuts]) -> tuple[str, ...] | None:
    """Return the feature names of the files; raise if they differ."""
    for file, cut in zip(files, cuts, strict=True):
        if cut.feature_names != cuts[0].feature_names:
            raise SchemaError(
                f"the features have other names than in {files[0]}",
                parameter="features",
                file=file,
                fix="Name the same columns in the same order",
            )
    return cuts[0].feature_names


def repartition(path: Any, target: str | Path, **options: Unpack[ReadKeywords]) -> SortReport:
    """Write the rows of files, grouped by query, to one Parquet file.

    Sorts on this machine, in memory bounded by ``max_memory`` (default 768 MiB). The result can
    be cut between any of its row groups, however the queries were ordered in the files before.

    Parameters
    ----------
    path
        Files, as for ``rankine.load``.
    target
        The Parquet file to write; its folder is created.
    **options
        Fields of ``ReadOptions``.
    """
    for source in find_sources(path):
        if choose_format(source, options.get("format"), source.head()).name == "letor":
            raise ParameterError(
                f"{source.name} is text, and grouping does not convert it to Parquet",
                fix="Convert it first: rankine convert IN OUT.parquet",
            )
    if not is_url(target):
        Path(target).parent.mkdir(parents=True, exist_ok=True)
    return sort_file(path, target, **options)
