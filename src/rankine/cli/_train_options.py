"""Groups of options of ``rankine train``: partitions, clicks and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from rankine.cli._console import set_interruption
from rankine.cli._groups import option_panel, reject_options
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.logs.schema import LogSchema

_dask = option_panel("Partitions and clusters")
_clicks = option_panel("Clicks")
_run = option_panel("Long runs")


@dataclass(frozen=True)
class ClusterOptions:
    """Options of training on partitions: where they are processed, and how large they are."""

    dask: Annotated[
        str | None,
        _dask(
            help="Train on partitions. Where: a Dask scheduler (tcp://host:8786 or tls://...), N "
            "local processes (local:N), or this process without Dask (here)."
        ),
    ] = None
    repartition: Annotated[
        bool, _dask("--repartition", help="First group the rows by query, into a new file.")
    ] = False
    repartition_to: Annotated[
        str | None,
        _dask(help="Folder of the grouped file (default: rankine-partitions/ with the data)."),
    ] = None
    partition_mb: Annotated[int, _dask(help="Approximate partition size in MB.")] = 64
    timeout: Annotated[float, _dask(help="Fail if no task finishes within this many seconds.")] = (
        600.0
    )

    def check(self, *, stream: bool) -> None:
        """Raise an error for options that have no effect or exclude each other."""
        if self.dask is not None:
            if stream:
                raise ParameterError(
                    "cannot be combined with --dask",
                    parameter="stream",
                    fix="Leave one of them out",
                )
            return
        reject_options(
            ("repartition", "repartition_to"), "needs --dask", "Add --dask, or use rankine sort"
        )
        reject_options(("partition_mb", "timeout"), "needs --dask")


@dataclass(frozen=True)
class ClickCorrectionOptions:
    """Options that correct clicks for the positions at which items were displayed."""

    position: Annotated[str | None, _clicks(help="Column of displayed positions, from 1.")] = None
    propensity: Annotated[
        str | None,
        _clicks(
            help="Weight clicks by the inverse examination probability of their position. Pass a "
            "file written by rankine clicks propensity, or auto to estimate the probabilities from "
            "the training data (with --item and --search)."
        ),
    ] = None
    max_weight: Annotated[
        float | None, _clicks(help="Largest weight of a click (default: 10).")
    ] = None
    position_offset: Annotated[
        int | None,
        _clicks(help="Learn a score offset for each of the first N positions.", metavar="N"),
    ] = None
    item: Annotated[
        str | None, _clicks(help="Item column, for --propensity auto and --label coec.")
    ] = None
    search: Annotated[
        str | None, _clicks(help="Search column, for --propensity auto and --label coec.")
    ] = None
    context: Annotated[
        str | None,
        _clicks(
            "--context",
            help="Estimate --propensity auto for each value of this column, such as a device.",
        ),
    ] = None

    def check(
        self, label: str, settings: dict[str, Any], schema: LogSchema | None = None
    ) -> str | None:
        """Raise an error for options without effect; return the click formula of a coec label.

        The label ``coec`` or ``coec(formula)`` means clicks over expected clicks. Return None
        for other labels.
        """
        from rankine.logs.clicks import coec_formula

        click_formula = coec_formula(label)
        is_coec = click_formula is not None
        has_weights = self.propensity is not None or settings.get("propensity") is not None
        has_offset = self.position_offset is not None or settings.get("position_offset") is not None
        if self.position is not None and not (has_weights or has_offset or is_coec):
            raise ParameterError(
                "has no effect without a propensity or an offset",
                parameter="position",
                fix="Add --propensity FILE (from rankine clicks propensity, or auto with --item), "
                "or --position-offset 10",
            )
        if self.max_weight is not None and (not has_weights or is_coec):
            raise ParameterError(
                "needs --propensity, whose weights it limits",
                parameter="max_weight",
                fix="Leave it out, or add --propensity",
            )
        counts_items = is_coec or self.propensity == "auto"
        if counts_items and self.item is None and (schema is None or schema.item is None):
            raise ParameterError(
                "an item column is needed to count the clicks of items by position",
                parameter="item",
                fix="Add --item item, and --search search if there is such a column",
            )
        for name in ("item", "search"):
            if not counts_items and getattr(self, name) is not None:
                raise ParameterError(
                    "needs --propensity auto or --label coec", parameter=name, fix="Leave it out"
                )
        if self.context is not None and self.propensity != "auto":
            raise ParameterError(
                "needs --propensity auto",
                parameter="context",
                fix="Leave it out: a file of propensities names its context",
            )
        return click_formula

    def load_propensity(self) -> Any:
        """Load the propensities of a file; return None if no file is named."""
        from rankine.logs.propensity import Propensity

        if self.propensity is None or self.propensity == "auto":
            return None
        return Propensity.load(self.propensity)


@dataclass(frozen=True)
class CheckpointOptions:
    """Options of saving and resuming a long run."""

    checkpoint: Annotated[
        str | None, _run(help="Save checkpoints in this folder (--stream and --dask).")
    ] = None
    every: Annotated[int, _run(help="Number of lists or steps between checkpoints.")] = 100_000
    resume: Annotated[bool, _run("--resume", help="Continue from the last checkpoint.")] = False

    def options(self) -> dict[str, Any]:
        """Return keyword arguments of ``fit``."""
        if self.checkpoint is not None:
            set_interruption(
                f"no model was written; checkpoints are in {self.checkpoint}, and the same command "
                "with --resume continues from the last one"
            )
            return {"checkpoint": self.checkpoint, "every": self.every, "resume": self.resume}
        reject_options(("resume", "every"), "needs --checkpoint", "Name the folder of checkpoints")
        return {}
