"""How training went: the objective, certificates and validation that a model file records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankine.core.safe_text import Html, join
from rankine.model import LinearModel
from rankine.reporting.page import Section, card, count, facts, figures, number
from rankine.reporting.svg import Line, line_chart

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


_STEP_WORDS = {
    "iteration": "iterations",
    "sweep": "sweeps over the features",
    "lists": "lists seen",
    "step": "steps",
}
_ENDS = {
    "max_iter": "after all the steps it was given",
    "converged": "when the tolerance was met",
    "passes": "at the end of the data",
    "early_stopping": "early, when held-out queries stopped improving",
    "callback": "when a callback asked to",
}
_MEANING = {
    "gap": "how far the objective can still be from the optimum, proven by a lower bound",
    "residual": "how far the equations of the optimum are from being met (relative)",
    "relative_gap": "how far the objective can still be from the optimum, relative to no model",
}


def training_section(found: Training) -> Section | None:
    """Objective, certificates and validation against steps; the certificate in numbers."""
    x_name = _STEP_WORDS.get(found.step_name, found.step_name)
    pictures = [
        *_objective(found, x_name),
        *_certificates(found, x_name),
        *_progressive(found, x_name),
        *_validation(found),
    ]
    known = _facts(found)
    if not pictures and not known:
        return None
    lead = (
        "What was recorded while the model was trained."
        if pictures
        else "The model file holds no trace of its training: rankers that draw at random record "
        "one with --valid, or with --set record_at."
    )
    body = [figures(*pictures)] if pictures else []
    if known:
        body.append(card(facts(known)))
    return Section("training", "Training", "How did training go?", lead, join(body))


def _line(
    name: str,
    kind: str,
    steps: Sequence[float],
    values: Sequence[float | None],
    above: float = -math.inf,
) -> list[Line]:
    """The curve of what is known and above a bound; none where nothing is."""
    known = [
        (x, y)
        for x, y in zip(steps, values, strict=True)
        if y is not None and math.isfinite(y) and y > above
    ]
    if not known:
        return []
    x, y = zip(*known, strict=True)
    return [Line(name.replace("_", " "), kind, x, y, points=len(x) <= 40)]


def _objective(found: Training, x_name: str) -> list[Html]:
    kinds = {"objective": "model", "lower_bound": "feature", "eval_objective": "against"}
    names = [name for name in kinds if name in found.curves]
    lines = [line for n in names for line in _line(n, kinds[n], found.steps, found.curves[n])]
    if "objective" not in names or not lines:
        return []
    words = (
        "What training minimises, the penalty included. Read: it should fall and level off"
        + ("; the lower bound proves how low it can go" if "lower_bound" in names else "")
        + ("; on held-out data it should not rise again" if "eval_objective" in names else "")
        + "."
    )
    spread = [v for line in lines for v in line.y]
    log = min(spread) > 0 and max(spread) / min(spread) > 50
    about, axes = "The objective during training", (x_name, "objective")
    far = _long(found.steps)
    return [line_chart("Objective", lines, axes, words, about=about, log_y=log, log_x=far)]


def _long(steps: Sequence[float]) -> bool:
    return bool(steps) and min(steps) > 0 and max(steps) / min(steps) > 300


def _certificates(found: Training, x_name: str) -> list[Html]:
    pictures = []
    for name, meaning in _MEANING.items():
        values = found.curves.get(name)
        lines = [] if values is None else _line(name, "model", found.steps, values, above=0.0)
        if lines:
            words = f"Logarithmic: {meaning}. Read: the lower, the more exact the model."
            title, axes = lines[0].name.capitalize(), (x_name, lines[0].name)
            about = f"{name} during training"
            pictures.append(line_chart(title, lines, axes, words, about=about, log_y=True))
    return pictures


def _progressive(found: Training, x_name: str) -> list[Html]:
    pictures = []
    for name, values in found.curves.items():
        shown = name.removeprefix("progressive_")
        lines = _line(name, "model", found.steps, values) if shown != name else []
        if not lines or len(lines[0].x) < 2:
            continue
        words = (
            "Progressive validation: every list is judged by the model before it learns from it, "
            "and the mean so far is drawn. Read: honest without held-out data; it should "
            + ("fall." if shown == "loss" else "rise and level off.")
        )
        title, far = f"Progressive {shown}", _long(lines[0].x)
        pictures.append(line_chart(title, lines, (x_name, shown), words, about=title, log_x=far))
    return pictures


def _validation(found: Training) -> list[Html]:
    name = found.metric or "metric"
    lines = _line(name, "against", found.validation_steps, found.validation)
    if not lines or len(lines[0].x) < 2:
        return []
    words = (
        f"{name} on held-out queries while training went on. Read: training longer than to the "
        "top of this curve does not help."
    )
    about = f"{name} on held-out queries during training"
    return [line_chart("Validation", lines, ("steps", name), words, about=about)]


def _figure(value: float) -> str:
    return count(value) if float(value).is_integer() and abs(value) < 1e15 else number(value, 6)


def _facts(found: Training) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if found.n_iter is not None:
        rows.append(("steps or iterations", count(found.n_iter)))
    if found.stop_reason is not None:
        rows.append(("ended", _ENDS.get(found.stop_reason, found.stop_reason.replace("_", " "))))
    rows += [(name.replace("_", " "), _figure(value)) for name, value in found.certificate.items()]
    return rows
