"""What training recorded: objective, certificate, validation, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__ = ["Training", "training"]

#: Names of the column that counts steps, in order of preference.
STEPS = ("iteration", "sweep", "lists", "step")
#: Recorded counts that are work, not quality.
_WORK = frozenset({"rows", "evaluations", "products", "polish", "nonzeros", *STEPS})


@dataclass(frozen=True)
class Training:
    """The stored trace by column, the certificate, and how the run ended.

    ``curves`` leaves out the column of steps and counts of work.
    """

    step_name: str
    steps: Sequence[float]
    curves: Mapping[str, Sequence[float | None]]
    validation_steps: Sequence[float]
    validation: Sequence[float | None]
    metric: str | None
    certificate: Mapping[str, float]
    n_iter: int | None
    stop_reason: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def training(model: LinearModel) -> Training:
    """Read the trace that a model file carries (``docs/model-file.md``)."""
    story = model.provenance
    columns = _columns(story.get("trace"))
    name = next((step for step in STEPS if step in columns), "step")
    checks = _columns(story.get("validation"))
    certificate = story.get("certificate")
    n_iter = story.get("n_iter")
    reason = story.get("stop_reason")
    return Training(
        name,
        [float(v or 0) for v in columns.get(name, [])],
        {key: values for key, values in columns.items() if key not in _WORK},
        [float(v or 0) for v in checks.get("step", [])],
        checks.get("value", []),
        model.metric,
        {
            str(key): float(value)
            for key, value in (certificate if isinstance(certificate, Mapping) else {}).items()
            if isinstance(value, (int, float))
        },
        n_iter if isinstance(n_iter, int) else None,
        None if reason is None else str(reason),
    )


def _columns(found: Any) -> dict[str, list[float | None]]:
    """Columns of numbers of equal length; a file may hold anything, so anything else is dropped."""
    if not isinstance(found, Mapping):
        return {}
    columns = {
        str(key): [float(v) if isinstance(v, (int, float)) else None for v in values]
        for key, values in found.items()
        if isinstance(values, list)
    }
    lengths = {len(values) for values in columns.values()}
    return columns if len(lengths) == 1 else {}
