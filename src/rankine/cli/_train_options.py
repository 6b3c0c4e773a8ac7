"""Options of training that belong together: checkpoints of long runs, columns of raw logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from rankine.cli._options import split_list

__all__ = ["Checkpoints", "LogColumns"]


def _run(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Long runs", **settings)


def _log(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Raw logs (Parquet, Arrow)", **settings)


@dataclass(frozen=True)
class Checkpoints:
    """Where a long run keeps its state."""

    checkpoint: Annotated[
        str | None, _run("--checkpoint", help="Folder of checkpoints (streams and --dask).")
    ] = None
    every: Annotated[int, _run("--every", help="Lists or steps between checkpoints.")] = 100_000
    resume: Annotated[bool, _run("--resume", help="Go on from the checkpoint.")] = False

    @property
    def asked(self) -> bool:
        """Whether checkpoints are wanted."""
        return self.checkpoint is not None

    def options(self) -> dict[str, Any]:
        """Keyword arguments of a fit."""
        from rankine.core.errors import ParameterError

        if self.checkpoint is None:
            if self.resume:
                raise ParameterError("--resume needs --checkpoint DIR", fix="Name the folder")
            return {}
        return {"checkpoint": self.checkpoint, "every": self.every, "resume": self.resume}


@dataclass(frozen=True)
class LogColumns:
    """Columns of a raw log by their use."""

    categorical: Annotated[
        str | None, _log("--categorical", help="Columns to hash, comma-separated.")
    ] = None
    numeric: Annotated[str | None, _log("--numeric", help="Columns to use as numbers.")] = None
    one_hot: Annotated[str | None, _log("--one-hot", help="Columns with a feature per value.")] = (
        None
    )
    cross: Annotated[
        list[str] | None, _log("--cross", help="Columns to hash together, a*b; repeatable.")
    ] = None
    hash_bits: Annotated[int, _log("--hash-bits", help="The hashed space has 2^N features.")] = 20
    position: Annotated[str | None, _log("--position", help="Column of displayed positions.")] = (
        None
    )
    split: Annotated[
        str | None, _log("--split", help="time:9/11,1/11,1/11: train, valid, test by time.")
    ] = None
    time_column: Annotated[
        str | None, _log("--time-column", help="Column of times; default: file order.")
    ] = None

    @property
    def named(self) -> bool:
        """Whether any column of a raw log was named."""
        lists = (self.categorical, self.numeric, self.one_hot)
        return bool(self.cross) or any(split_list(text) for text in lists)

    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``train_from_log``."""
        return {
            "categorical": split_list(self.categorical),
            "numeric": split_list(self.numeric),
            "one_hot": split_list(self.one_hot),
            "crosses": tuple(self.cross or ()),
            "hash_bits": self.hash_bits,
            "position": self.position,
            "split": self.split,
            "time_column": self.time_column,
        }

    def refuse_split(self) -> None:
        """Fail when a split was asked of data that is no raw log."""
        from rankine.core.errors import ParameterError

        if self.split is not None or self.time_column is not None:
            raise ParameterError(
                "--split and --time-column cut raw logs",
                fix="Name the log's columns (--categorical, --numeric), or pass --valid",
            )
