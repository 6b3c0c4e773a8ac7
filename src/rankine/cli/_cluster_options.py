"""Options of training on partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

__all__ = ["Cluster"]


def _dask(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Partitions and clusters", **settings)


@dataclass(frozen=True)
class Cluster:
    """Where partitions are worked on, and how they are cut."""

    dask: Annotated[
        str | None,
        _dask(
            "--dask",
            help="Train on partitions: tcp://host:8786, tls://..., local:N for N processes, "
            "or here for one partition after the other without Dask.",
        ),
    ] = None
    repartition: Annotated[
        bool, _dask("--repartition", help="First group the rows by query, into a new file.")
    ] = False
    repartition_to: Annotated[
        str | None,
        _dask("--repartition-to", help="Folder of that file; default: rankine-partitions/ here."),
    ] = None
    partition_mb: Annotated[
        int, _dask("--partition-mb", help="About the memory of a partition.")
    ] = 64
    timeout: Annotated[
        float, _dask("--timeout", help="Seconds without a finished task that are an error.")
    ] = 600.0

    def check(self, *, raw_log: bool, stream: bool) -> None:
        """Refuse what does not go together."""
        from rankine.core.errors import ParameterError

        if self.dask is None:
            if self.repartition or self.repartition_to is not None:
                raise ParameterError(
                    "--repartition belongs to --dask", fix="Add --dask, or use rankine sort"
                )
            return
        if raw_log:
            raise ParameterError(
                "--dask trains on columns of numbers; raw logs are encoded on one machine",
                fix="Leave out --dask and use --ranker elastic, or store encoded features",
            )
        if stream:
            raise ParameterError("--stream and --dask are two ways", fix="Leave one of them out")
