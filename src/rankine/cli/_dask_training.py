"""Training on partitions for the command line."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankine.cli import _console
from rankine.cli._console import training_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.cli._options import Cluster
    from rankine.cli._training import Run

__all__ = ["fit_parts"]


def fit_parts(
    estimator: Any, paths: list[str], options: dict[str, Any], run: Run, cluster: Cluster
) -> None:
    """Cut the files, connect, fit."""
    import rankine
    from rankine.distributed import scan

    options = {name: value for name, value in options.items() if name != "progress"}
    start, kept = run.start(), dict(run.checkpoints)
    kept.pop("every", None)
    if start is not None:
        options = {"n_features": start.n_features, **options}
    if cluster.repartition or cluster.repartition_to is not None:
        paths = [_grouped(paths, options, cluster, resume=bool(kept.get("resume")))]
    held = None
    with _client(str(cluster.dask)) as client:
        data = scan(
            paths,
            client=client,
            partition_bytes=cluster.partition_mb * 2**20,
            timeout=cluster.timeout,
            **kept,
            **options,
        )
        if run.valid is not None:
            held = rankine.load(run.valid, **{**options, "n_features": data.n_features})
        parts, files = data.n_partitions, len(data.sources)
        _console.say(f"{parts} partition{'s' * (parts > 1)} of {files} file{'s' * (files > 1)}")
        extra = {} if start is None else {"coef_init": start.to_dense()}
        with training_progress(f"training {type(estimator).__name__}") as callbacks:
            estimator.fit(data, eval_set=held, callbacks=callbacks, **extra)


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """A client, or None for this process."""
    if address == "here":
        yield None
        return
    from rankine.distributed.connect import connect

    with connect(address) as client:
        yield client


def _grouped(paths: list[str], options: dict[str, Any], cluster: Cluster, *, resume: bool) -> str:
    """Path of the rows grouped by query; a resumed run takes the file of the first one."""
    from rankine.data.sources import find_sources
    from rankine.distributed import repartition

    first = find_sources(paths)[0].path
    folder = cluster.repartition_to
    if folder is None:
        folder = str((first or Path()).absolute().parent / "rankine-partitions")
    target = Path(folder) / "rows.parquet"
    if not (resume and target.exists()):
        report = repartition(paths, target, **options)
        _console.say(f"{report.rows:,} rows of {report.queries:,} queries grouped in {target}")
    return str(target)
