"""Data as partitions: descriptions of rows in files, read by whoever works on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from rankine.core.errors import ParameterError, SchemaError
from rankine.data.formats import choose_format
from rankine.data.open import read_names
from rankine.data.options import ReadKeywords, ReadOptions
from rankine.data.scan import Scan
from rankine.data.sort import SortReport, sort_file
from rankine.data.sources import Source, find_sources
from rankine.distributed.file_partitions import FileCuts, Partition, cut_file, file_state
from rankine.distributed.journal import Journal
from rankine.distributed.partition_tasks import Measured, RawRowsTask, measure
from rankine.distributed.runners import DaskRunner, LocalRunner, require_dask
from rankine.distributed.worker_pool import PartitionTask, WorkerPool, token_of

__all__ = ["PARTITION_BYTES", "PartitionedDataset", "repartition", "scan"]


#: Memory of a partition: small enough for a worker of a gigabyte, large enough for Dask.
PARTITION_BYTES = 64 * 2**20
#: Partitions whose answers are brought to the driver at a time.
AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class PartitionedDataset:
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
        Who asks the partitions.
    encoding
        How the columns of a raw log become features, or None.
    """

    partitions: tuple[Partition, ...]
    n_features: int
    feature_names: tuple[str, ...] | None
    sources: tuple[str, ...]
    runner: Any = field(repr=False)
    encoding: Any = field(default=None, repr=False)

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return len(self.partitions)

    @property
    def fingerprint(self) -> str:
        """Digest of the files (size and time of last change) and of where they are cut."""
        return token_of(
            [[partition.file, partition.rows, partition.state] for partition in self.partitions],
            self.n_features,
            self.feature_names,
            None if self.encoding is None else self.encoding.key,
            *sorted(
                {
                    partition.label.text
                    for partition in self.partitions
                    if partition.label is not None
                }
            ),
        )

    def worker_pool(self, task: PartitionTask, journal: Journal | None = None) -> WorkerPool:
        """All partitions, prepared by a task."""
        return WorkerPool(self.runner, self.partitions, task, journal)

    def measure(self) -> Measured:
        """Read everything once: counts, and the check that every query lies in one partition."""
        return measure(self.worker_pool(RawRowsTask()), self.partitions)

    def groups(self) -> Iterator[PartitionedDataset]:
        """Some partitions after the other, where large answers are brought here."""
        for first in range(0, self.n_partitions, AT_ONCE):
            yield replace(self, partitions=self.partitions[first : first + AT_ONCE])

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What a function of the rows gives on every partition, in order."""
        return list(self.worker_pool(RawRowsTask()).each("apply", function, *arguments))

    def encoded(self, encoding: Any) -> PartitionedDataset:
        """The same rows of a raw log, their columns as features."""
        return replace(
            self,
            partitions=tuple(
                replace(partition, encoding=encoding) for partition in self.partitions
            ),
            n_features=encoding.spec.n_features,
            feature_names=encoding.feature_names,
            encoding=encoding,
        )

    def on(self, client: Any = None, *, timeout: float = 600.0) -> PartitionedDataset:
        """The same partitions on another cluster (None: on this machine)."""
        return replace(self, runner=_runner(client, timeout))

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
    at the next query; other files are one partition each. The cuts depend on the files and on
    ``partition_bytes`` alone, so a model has the same bits on any number of workers, on this
    machine, and after any failure.

    Parameters
    ----------
    path
        Files, as for ``rankine.load``, a stream of ``rankine.scan``, read as it reads them, or a
        log of ``rankine.logs.scan``. Every worker must see the files under the same path.
    client
        A ``distributed.Client``; None works through the partitions on this machine, in memory
        that does not grow with the data.
    partition_bytes
        About the memory of a partition. A worker needs several times as much.
    timeout
        Seconds without any finished task after which training ends with a ClusterError.
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
    if hasattr(path, "to_partitions"):
        cutting = {"client": client, "partition_bytes": partition_bytes, "timeout": timeout}
        parts: PartitionedDataset = path.to_partitions(**cutting, **options)
        return parts
    if isinstance(path, Scan):
        reading = {name.name: getattr(path.options, name.name) for name in fields(path.options)}
        path, options = list(path.sources), {**reading, "progress": False, **options}  # type: ignore[typeddict-item]
    if partition_bytes < 1 or timeout <= 0:
        raise ParameterError("partition_bytes and timeout must be positive", fix="Leave them out")
    chosen = ReadOptions.make(**{"progress": False, **options})
    _refuse_side_data(chosen)
    names = read_names(chosen.feature_names)
    chosen = replace(chosen, feature_names=None, progress=False)
    if names is not None and chosen.n_features is None:
        chosen = chosen.with_features(len(names))
    files = [str(_path(source)) for source in find_sources(path)]
    runner = _runner(client, timeout)
    cuts = runner.map(partial(_cut, options=chosen, partition_bytes=int(partition_bytes)), files)
    width = max(cut.n_features for cut in cuts)
    found = _same_names(files, cuts) if names is None else names
    chosen = chosen.with_features(width)
    partitions: list[Partition] = []
    for file, cut in zip(files, cuts, strict=True):
        state = file_state(file)
        partitions += [
            Partition(len(partitions) + k, file, rows, state, nbytes, chosen, found)
            for k, (rows, nbytes) in enumerate(zip(cut.ranges, cut.nbytes, strict=True))
        ]
    return PartitionedDataset(tuple(partitions), width, found, tuple(files), runner)


def _cut(file: str, options: ReadOptions, partition_bytes: int) -> FileCuts:
    from pathlib import Path

    return cut_file(Source(file, Path(file)), options, partition_bytes)


def _runner(client: Any, timeout: float) -> LocalRunner:
    if client is None:
        return LocalRunner()
    distributed = require_dask()
    if not isinstance(client, distributed.Client):
        raise ParameterError(
            f"client is a {type(client).__name__}, not a distributed.Client",
            fix="Pass distributed.Client(address), or cluster.get_client()",
        )
    return DaskRunner(client, timeout)


def _path(source: Source) -> Path:
    if source.path is None:
        raise ParameterError(
            "a pipe has no partitions", fix="Save it to a file that every worker can read"
        )
    return source.path.absolute()


def _refuse_side_data(options: ReadOptions) -> None:
    for name in ("group", "single_query", "sample_weight"):
        if getattr(options, name):
            raise ParameterError(
                f"{name}= belongs to one file and cannot be cut with partitions",
                fix="Store query ids and weights as columns: rankine convert IN OUT.parquet",
            )
    if options.query is None:
        raise ParameterError("partitions need query ids", fix="Name the column with query=")


def _same_names(files: list[str], cuts: list[FileCuts]) -> tuple[str, ...] | None:
    first = cuts[0].feature_names
    for file, cut in zip(files, cuts, strict=True):
        if cut.feature_names != first:
            raise SchemaError(
                f"the features are not called as in {files[0]}",
                file=file,
                fix="Choose the same columns in the same order with features=[...]",
            )
    return first


def repartition(path: Any, target: str | Path, **options: Unpack[ReadKeywords]) -> SortReport:
    """Write the rows of files grouped by query, whatever their size, to one Parquet file.

    Sorts on this machine, in memory bounded by ``max_memory`` (default 768 MiB). The result can
    be cut anywhere between its row groups, however the queries lay in the files before.

    Parameters
    ----------
    path
        Files, as for ``rankine.load``.
    target
        The Parquet file to write; its folder is made.
    **options
        Fields of ``ReadOptions``.
    """
    for source in find_sources(path):
        if choose_format(source, options.get("format"), source.head()).name == "letor":
            raise ParameterError(
                f"{source.name} is text, which would not become Parquet by being grouped",
                fix="Convert it first: rankine convert IN OUT.parquet",
            )
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    return sort_file(path, target, **options)
