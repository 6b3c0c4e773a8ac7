"""Options of training that belong together: long runs and clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from rankine.cli._options import panel
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.logs.schema import LogSchema

_run = panel("Long runs")
_clicks = panel("Clicks")


@dataclass(frozen=True)
class ClickCorrectionOptions:
    """How clicks are corrected for the positions they were made at."""

    position: Annotated[str | None, _clicks(help="Column of displayed positions, from 1.")] = None
    propensity: Annotated[
        str | None,
        _clicks(
            help="Weigh clicks by how often their position is looked at: a file of rankine clicks "
            "propensity, or auto to estimate it from the training data (--item, --search)."
        ),
    ] = None
    max_weight: Annotated[float | None, _clicks(help="Largest weight of a click; default 10.")] = (
        None
    )
    position_offset: Annotated[
        int | None, _clicks(help="Learn an offset for so many positions, for training.")
    ] = None
    item: Annotated[
        str | None, _clicks(help="Column of the item (propensity auto, label coec).")
    ] = None
    search: Annotated[
        str | None, _clicks(help="Column of the search (propensity auto, label coec).")
    ] = None

    context: Annotated[
        str | None,
        _clicks("--context", help="Column (a device): propensity auto for each of its values."),
    ] = None

    def check(
        self, label: str, settings: dict[str, Any], schema: LogSchema | None = None
    ) -> str | None:
        """Refuse what would be ignored; the formula of ``--label coec``, or None."""
        from rankine.logs.clicks import coec_formula

        formula = coec_formula(label)
        weighed = self.propensity is not None or settings.get("propensity") is not None
        offset = self.position_offset is not None or settings.get("position_offset") is not None
        if self.position is not None and not (weighed or offset or formula):
            raise ParameterError(
                "--position alone changes nothing: clicks need a propensity or an offset",
                fix="Add --propensity FILE (from rankine clicks propensity, or auto with --item), "
                "or --position-offset 10",
            )
        if self.max_weight is not None and (not weighed or formula):
            raise ParameterError(
                "--max-weight bounds the weights of --propensity, and there are none",
                fix="Leave it out, or add --propensity",
            )
        counted = formula is not None or self.propensity == "auto"
        if counted and self.item is None and (schema is None or schema.item is None):
            raise ParameterError(
                "items must be told apart to count their clicks by position",
                fix="Name their column: --item item, and --search search where there is one",
            )
        if not counted and (self.item is not None or self.search is not None):
            raise ParameterError(
                "--item and --search belong to --propensity auto and --label coec",
                fix="Leave them out",
            )
        if self.context is not None and self.propensity != "auto":
            raise ParameterError(
                "--context belongs to --propensity auto",
                fix="Leave it out: a file of propensities knows its context",
            )
        return formula

    def given(self) -> Any:
        """The propensities of a file, or None."""
        from rankine.logs.propensity import Propensity

        known = self.propensity is not None and self.propensity != "auto"
        return Propensity.load(str(self.propensity)) if known else None


@dataclass(frozen=True)
class CheckpointOptions:
    """Where a long run keeps its state."""

    checkpoint: Annotated[str | None, _run(help="Folder of checkpoints (streams and --dask).")] = (
        None
    )
    every: Annotated[
        int | None, _run(help="Lists or steps between checkpoints; default 100000.")
    ] = None
    resume: Annotated[bool, _run("--resume", help="Go on from the checkpoint.")] = False

    @property
    def asked(self) -> bool:
        """Whether checkpoints are wanted."""
        return self.checkpoint is not None

    def options(self) -> dict[str, Any]:
        """Keyword arguments of a fit."""
        if self.checkpoint is None:
            if self.resume or self.every is not None:
                option = "--resume" if self.resume else "--every"
                raise ParameterError(f"{option} needs --checkpoint DIR", fix="Name the folder")
            return {}
        every = 100_000 if self.every is None else self.every
        return {"checkpoint": self.checkpoint, "every": every, "resume": self.resume}
