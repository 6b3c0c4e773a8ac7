"""Show how training went: objective, certificates and validation from the model file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from rankine.model import LinearModel
from rankine.reporting.html import captions, parts
from rankine.reporting.numbers import count, number
from rankine.reporting.page import Section, figures
from rankine.reporting.svg import Line, line_chart

#: Names of the column that counts steps, in order of preference.
STEPS = ("iteration", "sweep", "lists", "step")
#: Recorded columns that count work; they are not drawn.
_WORK = frozenset({"rows", "evaluations", "products", "polish", "nonzeros", *STEPS})


@dataclass(frozen=True)
class Training:
    """The recorded trace by column, the certificate, and how the run ended.

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
    """Read the trace from a model file (``docs/model-file.md``)."""
    provenance = model.provenance
    # A model file may come from anywhere: nothing in its provenance has a guaranteed type.
    columns = _columns(provenance.get("trace"))
    step_name = next((step for step in STEPS if step in columns), "step")
    if step_name not in columns:
        columns = {}
    validation = _columns(provenance.get("validation"))
    if not {"step", "value"} <= set(validation):
        validation = {}
    certificate = provenance.get("certificate")
    if not isinstance(certificate, Mapping):
        certificate = {}
    n_iter = provenance.get("n_iter")
    if not isinstance(n_iter, int):
        n_iter = None
    reason = provenance.get("stop_reason")
    if reason is not None:
        reason = str(reason)
    return Training(
        step_name,
        [float(v or 0) for v in columns.get(step_name, [])],
        {key: values for key, values in columns.items() if key not in _WORK},
        [float(v or 0) for v in validation.get("step", [])],
        validation.get("value", []),
        model.metric,
        {str(k): float(v) for k, v in certificate.items() if _is_number(v)},
        n_iter,
        reason,
    )


def _is_number(value: Any) -> bool:
    """Whether a value is a number that float64 can hold."""
    return isinstance(value, (int, float)) and abs(value) < 1e308


def _columns(trace: Any) -> dict[str, list[float | None]]:
    """Return columns of numbers of equal length; anything else in the file is dropped."""
    if not isinstance(trace, Mapping):
        return {}
    columns = {
        str(key): [float(v) if _is_number(v) else None for v in values]
        for key, values in trace.items()
        if isinstance(values, list)
    }
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        return {}
    return columns


_STEP_NAMES = {
    "iteration": "iterations",
    "sweep": "sweeps over the features",
    "lists": "lists seen",
    "step": "steps",
}
_ENDS = {
    "max_iter": "after the maximum number of steps",
    "converged": "when the tolerance was met",
    "passes": "at the end of the data",
    "early_stopping": "early, when held-out queries stopped improving",
    "callback": "when a callback stopped it",
}
#: Recorded columns that measure how exact the solution is.
_CERTIFICATES = ("gap", "residual", "relative_gap")
#: Recorded columns drawn together -> colour class.
_OBJECTIVES = {"objective": "model", "lower_bound": "feature", "eval_objective": "against"}


def training_section(training: Training) -> Section | None:
    """Build charts of objective, certificates and validation, and the certificate in numbers."""
    x_name = _STEP_NAMES.get(training.step_name, training.step_name)
    charts = [
        *_objective(training, x_name),
        *_certificates(training, x_name),
        *_progressive(training, x_name),
        *_validation(training),
    ]
    rows = _facts(training)
    if not charts and not rows:
        return None
    body = figures(*charts)
    if rows:
        body += parts.card(parts.facts(rows))
    return Section(
        "training", "Training", "How did training go?", captions.training_lead(bool(charts)), body
    )


def _line(
    name: str,
    kind: str,
    steps: Sequence[float],
    values: Sequence[float | None],
    above: float = -math.inf,
) -> list[Line]:
    """Return the curve of the finite values above a bound, or no curve for no such value."""
    points = [
        (x, y)
        for x, y in zip(steps, values, strict=True)
        if y is not None and math.isfinite(y) and y > above
    ]
    if not points:
        return []
    x, y = zip(*points, strict=True)
    return [Line(name.replace("_", " "), kind, x, y, points=len(x) <= 40)]


def _objective(training: Training, x_name: str) -> list[Markup]:
    lines: list[Line] = []
    for name, kind in _OBJECTIVES.items():
        if name in training.curves:
            lines += _line(name, kind, training.steps, training.curves[name])
    if "objective" not in training.curves or not lines:
        return []
    values = [v for line in lines for v in line.y]
    return [
        line_chart(
            "Objective",
            lines,
            (x_name, "objective"),
            captions.objective(training.curves),
            about="The objective during training",
            log_y=min(values) > 0 and max(values) / min(values) > 50,
            log_x=_spans_decades(training.steps),
        )
    ]


def _spans_decades(steps: Sequence[float]) -> bool:
    return bool(steps) and min(steps) > 0 and max(steps) / min(steps) > 300


def _certificates(training: Training, x_name: str) -> list[Markup]:
    charts = []
    for name in _CERTIFICATES:
        if name not in training.curves:
            continue
        # Only positive values have a place on a logarithmic axis.
        lines = _line(name, "model", training.steps, training.curves[name], above=0.0)
        for line in lines:
            caption = captions.certificate(name)
            axis_names = (x_name, line.name)
            about = f"{name} during training"
            title = line.name.capitalize()
            charts.append(line_chart(title, lines, axis_names, caption, about=about, log_y=True))
    return charts


def _progressive(training: Training, x_name: str) -> list[Markup]:
    charts = []
    for column, values in training.curves.items():
        metric = column.removeprefix("progressive_")
        if metric == column:
            continue
        lines = _line(column, "model", training.steps, values)
        # A single value is no curve.
        if not lines or len(lines[0].x) < 2:
            continue
        caption = captions.progressive(metric)
        title = f"Progressive {metric}"
        log_x = _spans_decades(lines[0].x)
        charts.append(line_chart(title, lines, (x_name, metric), caption, about=title, log_x=log_x))
    return charts


def _validation(training: Training) -> list[Markup]:
    metric = training.metric or "metric"
    lines = _line(metric, "against", training.validation_steps, training.validation)
    if not lines or len(lines[0].x) < 2:
        return []
    caption = captions.validation(metric)
    about = f"{metric} on held-out queries during training"
    return [line_chart("Validation", lines, ("steps", metric), caption, about=about)]


def _facts(training: Training) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if training.n_iter is not None:
        rows.append(("steps or iterations", count(training.n_iter)))
    reason = training.stop_reason
    if reason is not None:
        rows.append(("ended", _ENDS.get(reason, reason.replace("_", " "))))
    for name, value in training.certificate.items():
        whole = value.is_integer() and abs(value) < 1e15
        text = number(value, 6)
        if whole:
            text = count(value)
        rows.append((name.replace("_", " "), text))
    return rows
