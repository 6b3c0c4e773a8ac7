"""A partition as a task: which rows of which file, and how to read them.

Data as partitions: descriptions of rows in files, read by whoever works on them.

Rows of any order as files whose queries stand together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from rankine.core.errors import ChangedDataError, DataError, ParameterError, SchemaError
from rankine.data.formats import choose_format, reader_of
from rankine.data.open import check_names, read_names, read_source
from rankine.data.options import ReadOptions
from rankine.data.sort import SortReport, sort_file
from rankine.data.sources import Source, find_sources
from rankine.distributed.cuts import FileCuts, cut_file
from rankine.distributed.recipes import Measured, RawRecipe, measure
from rankine.distributed.runners import DaskRunner, LocalRunner, require_dask
from rankine.distributed.team import Team, token_of

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.data.keywords import ReadKeywords
    from rankine.distributed.journal import Journal
    from rankine.distributed.runners import Runner
    from rankine.distributed.team import Recipe

__all__ = ["PARTITION_BYTES", "PartitionedDataset", "Piece", "file_state", "repartition", "scan"]


@dataclass(frozen=True)
class Piece:
    """Rows of a file, described well enough for any machine that sees the file.

    Attributes
    ----------
    number
        Place among all partitions; sums are taken in this order.
    file
        Path of the file.
    rows
        First row and the row after the last; None for the whole file.
    state
        Size and time of last change of the file when it was cut.
    nbytes
        About the memory it takes.
    options
        How to read.
    feature_names
        Names of the features.
    """

    number: int
    file: str
    rows: tuple[int, int] | None
    state: tuple[int, int]
    nbytes: int
    options: ReadOptions
    feature_names: tuple[str, ...] | None

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same rows read in the same way."""
        return self.file, self.rows, self.state, repr(self.options)

    def load(self) -> Dataset:
        """Read the rows; a file that is not what it was when it was cut is an error."""
        if file_state(self.file) != self.state:
            raise ChangedDataError(
                "the file changed since it was cut into partitions",
                file=self.file,
                fix="Scan again once nobody writes to it",
            )
        source = Source(self.file, Path(self.file))
        if self.rows is None:
            data = read_source(source, self.options)
            if data is None:
                raise DataError("no rows", file=self.file, fix="Leave the file out")
        else:
            reader = reader_of(choose_format(source, self.options.format, source.head()))
            data = reader.read(source, self.options, self.rows)
        data = replace(data, sources=(self.file,))
        return check_names(data, self.feature_names) if data.feature_names is None else data

    @property
    def name(self) -> str:
        """The piece in words, for errors."""
        where = "" if self.rows is None else f", rows {self.rows[0] + 1} to {self.rows[1]}"
        return f"partition {self.number} ({self.file}{where})"


def file_state(file: str) -> tuple[int, int]:
    """Size and time of last change; a file that cannot be seen is an error."""
    try:
        seen = Path(file).stat()
    except OSError as error:
        raise DataError(
            f"cannot be opened: {error.strerror}",
            file=file,
            fix="Every worker must see the files under the same path (a shared file system)",
        ) from error
    return seen.st_size, seen.st_mtime_ns


#: Memory of a partition: small enough for a worker of a gigabyte, large enough for Dask.
PARTITION_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class PartitionedDataset:
    """Partitions of whole queries, on a Dask cluster or on this machine; see ``scan``.

    Attributes
    ----------
    pieces
        The partitions, in order.
    n_features, feature_names
        Columns of every partition.
    sources
        Files.
    runner
        Who asks the partitions.
    rounds
        Rounds of the rankers that average parameters.
    checkpoint, resume
        Folder of answers, and whether to go on from it.
    """

    pieces: tuple[Piece, ...]
    n_features: int
    feature_names: tuple[str, ...] | None
    sources: tuple[str, ...]
    runner: Any = field(repr=False)
    rounds: int = 10
    checkpoint: str | Path | None = None
    resume: bool = False

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return len(self.pieces)

    @property
    def fingerprint(self) -> str:
        """Digest of the files (size and time of last change) and of where they are cut."""
        return token_of(
            [[piece.file, piece.rows, piece.state] for piece in self.pieces],
            self.n_features,
            self.feature_names,
        )

    def team(self, recipe: Recipe, journal: Journal | None = None) -> Team:
        """All partitions, prepared by a recipe."""
        return Team(self.runner, self.pieces, recipe, journal)

    def measure(self) -> Measured:
        """Read everything once: counts, and the check that every query lies in one partition."""
        return measure(self.team(RawRecipe()), self.pieces)

    def on(self, client: Any = None, *, timeout: float = 600.0) -> PartitionedDataset:
        """The same partitions on another cluster (None: on this machine)."""
        return replace(self, runner=_runner(client, timeout))

    def __len__(self) -> int:
        return len(self.pieces)


def scan(
    path: Any,
    *,
    client: Any = None,
    partition_bytes: int = PARTITION_BYTES,
    timeout: float = 600.0,
    rounds: int = 10,
    checkpoint: str | Path | None = None,
    resume: bool = False,
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
        Files, as for ``rankine.load``. Every worker must see them under the same path.
    client
        A ``distributed.Client``; None works through the partitions on this machine, in memory
        that does not grow with the data.
    partition_bytes
        About the memory of a partition. A worker needs several times as much.
    timeout
        Seconds without any finished task after which training ends with a ClusterError.
    rounds
        Rounds of ``SPDRanker`` and ``ElasticRanker``, which average parameters after each.
    checkpoint, resume
        Folder that records training; ``resume`` goes on from it, with the same bits.
    **options
        Fields of ``ReadOptions``, as for ``rankine.scan``.

    Examples
    --------
    >>> import numpy as np, rankine, rankine.distributed, tempfile
    >>> data = rankine.Dataset.from_arrays(np.eye(4), [1, 0, 0, 1], [1, 1, 2, 2])
    >>> folder = tempfile.mkdtemp()
    >>> data.save(folder + "/a.parquet")
    >>> parts = rankine.distributed.scan(folder + "/*.parquet")
    >>> rankine.RankSVM(lam=0.1).fit(parts).coef_.round(2).tolist()
    [0.5, -0.5, -0.5, 0.5]
    """
    if partition_bytes < 1 or timeout <= 0 or rounds < 1:
        raise ParameterError(
            "partition_bytes, timeout and rounds must be positive", fix="Leave them out"
        )
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
    pieces: list[Piece] = []
    for file, cut in zip(files, cuts, strict=True):
        state = file_state(file)
        pieces += [
            Piece(len(pieces) + k, file, rows, state, nbytes, chosen, found)
            for k, (rows, nbytes) in enumerate(zip(cut.ranges, cut.nbytes, strict=True))
        ]
    return PartitionedDataset(
        tuple(pieces), width, found, tuple(files), runner, int(rounds), checkpoint, resume
    )


def _cut(file: str, options: ReadOptions, partition_bytes: int) -> FileCuts:
    from pathlib import Path

    return cut_file(Source(file, Path(file)), options, partition_bytes)


def _runner(client: Any, timeout: float) -> Runner:
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
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    return sort_file(path, target, **options)
