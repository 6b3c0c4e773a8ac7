"""``rankine.report``: one door for every kind of result, and the report of a model on data."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset
from rankine.logs.source import monitor_log
from rankine.model import LinearModel, ModelBundle
from rankine.model.bundle import select_model
from rankine.model.tables import find_tables
from rankine.reporting.calibration import calibration, calibration_section
from rankine.reporting.data import data_section, data_summary, drift_section
from rankine.reporting.headline import headline, headline_section, headline_tiles, summary_words
from rankine.reporting.judged import Judged
from rankine.reporting.lists import Ranked, lists_part, ranked_query
from rankine.reporting.origin import origin, origin_section
from rankine.reporting.page import Report, Section, make_report
from rankine.reporting.ranks import (
    curve_metrics,
    curves,
    curves_section,
    differences,
    extremes,
    queries_section,
    spread,
)
from rankine.reporting.tables import pictures, tables_section
from rankine.reporting.training import training, training_section
from rankine.reporting.weights import size_curve, size_section, weights, weights_section
from rankine.transforms.drift import Drift, summary_of

_EFFECT = (
    "A bar is the weight times how much its feature usually varies within a list: how far it "
    "moves items, in units of the score."
)


def model_report(
    judged: Judged, *, title: str, n_queries: int = 3, seed: int = 0, command: str | None = None
) -> Report:
    """All figures, then all sections."""
    heads = [headline(judged, metric, seed) for metric in judged.metrics]
    made = origin(judged.model, judged.data)
    learned, summary = weights(judged.view, judged.effect), data_summary(judged)
    story = training(judged.model)
    numbers: dict[str, Any] = {
        "headline": heads,
        "refused": judged.refused,
        "weights": learned,
        "training": story,
        "data": summary,
        "origin": made,
    }
    sections: list[Section | None] = [headline_section(judged, heads, made)]
    sections += _measured(judged, numbers, n_queries, seed)
    tables = find_tables(judged.model)
    if tables is None:
        knows = weights_section(learned, _EFFECT)
    else:
        knows = tables_section(tables, judged.data, learned)
        numbers["tables"] = pictures(tables, judged.data)
    sections.insert(-2, knows)
    sections += [training_section(story), data_section(summary)]
    if judged.data.encoding is not None and summary_of(judged.model) is not None:
        changed = Drift.from_monitor(monitor_log(judged.model, [judged.data]))
        numbers["drift"] = changed.to_dict()
        sections.append(drift_section(changed))
    sections.append(origin_section(made, command))
    words, tiles = summary_words(heads), headline_tiles(judged, heads)
    return make_report(title, "rankine report", words, tiles, sections, numbers)


def _measured(
    judged: Judged, numbers: dict[str, Any], n_queries: int, seed: int
) -> list[Section | None]:
    """Sections that need a metric, and their figures."""
    metric = judged.metric
    found = [curves(judged, one, seed) for one in curve_metrics(judged)]
    depth = [one for one in found if one is not None]
    values = spread(judged, metric)
    gaps = differences(judged, metric, judged.rival)
    groups = _lists(judged, n_queries)
    size = size_curve(judged, metric)
    gap = calibration(judged, seed)
    numbers.update(
        curves=depth,
        queries=values,
        differences=gaps,
        lists=dict(groups),
        size=size,
        calibration=gap,
    )
    return [
        curves_section(depth),
        queries_section(values, gaps, metric.title, lists_part(groups, metric.title)),
        None if size is None else size_section(size, metric.title),
        None if gap is None else calibration_section(gap),
    ]


def _lists(judged: Judged, n: int) -> list[tuple[str, Sequence[Ranked]]]:
    """The worst and best queries, and those that moved most against another model."""
    metric = judged.metric
    values = judged.values(judged.opponents[0], metric)
    rival = judged.opponent("against", "shown")
    others = None if rival is None else judged.values(rival, metric)

    def listed(places: Sequence[int]) -> list[Ranked]:
        return [
            ranked_query(
                judged,
                q,
                float(values[q]),
                rival,
                None if others is None else _number(others[q]),
            )
            for q in places
        ]

    worst, best = extremes(judged, values, n, larger_is_better=metric.larger_is_better)
    groups: list[tuple[str, Sequence[Ranked]]] = [
        ("Worst queries", listed(worst)),
        ("Best queries", listed(best)),
    ]
    if rival is not None and rival.kind == "against" and others is not None:
        moved = values - others
        lost, won = extremes(judged, moved, n, larger_is_better=metric.larger_is_better)
        sign = 1.0 if metric.larger_is_better else -1.0
        groups += [
            ("Lost most against the other model", listed([q for q in lost if sign * moved[q] < 0])),
            ("Won most against the other model", listed([q for q in won if sign * moved[q] > 0])),
        ]
    return groups


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def report(
    subject: Any,
    data: Any = None,
    *,
    against: Any = None,
    metric: str | Sequence[str] | None = None,
    title: str | None = None,
    topic: str | None = None,
    n_queries: int = 3,
    random_state: int = 0,
    command: str | None = None,
    **options: Any,
) -> Report:
    """Make a report: one self-contained HTML page, and the numbers behind it.

    Parameters
    ----------
    subject
        A ``LinearModel``, its file, or a fitted ranker (all need ``data``); or a finished
        ``TuningResult``, ``Comparison`` (or several of them), ``LetorResult`` or
        ``RegularizationPath``.
    data
        Labelled data that the model has not seen: a ``Dataset``, a raw log, what ``rankine.load``
        reads, or a function that reads it for the given models.
    against
        Another model, file or fitted ranker to stand beside it.
    metric
        The headline's metric, or several; by default the model's own.
    title
        Of the page.
    topic
        The model of a bundle to look at.
    n_queries
        How many of the worst and of the best queries to show.
    random_state
        Of the resampling.
    command
        Shown as the command that makes the page again.
    **options
        Of ``rankine.load``, when ``data`` is a path.

    Returns
    -------
    Report
        With ``save(path)``, ``html``, ``figures``; shows itself in notebooks.

    Examples
    --------
    >>> import rankine
    >>> from rankine.logs.simulation import shop_log
    >>> log = shop_log(60)
    >>> train, test = log.take_queries(range(40)), log.take_queries(range(40, 60))
    >>> page = rankine.report(rankine.RankSVM(scale="standard").fit(train), test)
    >>> page.figures["headline"][0]["metric"]
    'ndcg@10'
    """
    from rankine.reporting.results import result_report

    finished = result_report(subject, title=title, command=command)
    if finished is not None and data is None:
        judging = {"against": against, "metric": metric, "topic": topic, **options}
        for name, value in judging.items():
            if value is not None:
                raise ParameterError(
                    f"{name}= says how a model is judged, and this result is finished",
                    fix="Leave it out",
                )
        return finished

    judged = judge_subject(
        subject,
        data,
        against=against,
        metrics=[metric] if isinstance(metric, str) else metric,
        topic=topic,
        **options,
    )
    return model_report(
        judged,
        title=title or _title(judged.model, judged.data),
        n_queries=n_queries,
        seed=random_state,
        command=command,
    )


def judge_subject(
    subject: Any,
    data: Any,
    *,
    against: Any = None,
    metrics: Sequence[str] | None = None,
    topic: str | None = None,
    **options: Any,
) -> Judged:
    """Whatever stands for a model, on whatever stands for labelled data."""
    from rankine.evaluation.systems import load_for_models
    from rankine.reporting.judged import judge

    if data is None:
        raise ParameterError(
            "a model is judged on data", fix="Pass labelled data that it has not seen"
        )
    opened = [_opened(one) for one in (subject, against) if one is not None]
    several = any(isinstance(one, ModelBundle) for one, _ in opened)
    # The topic is that of every bundle among them.
    (model, name), *others = [
        (one, called)
        if several and isinstance(one, LinearModel)
        else (select_model(one, topic), topic or called)
        for one, called in opened
    ]
    other, other_name = others[0] if others else (None, "")
    models = [one for one in (model, other) if one is not None]
    found = data(models) if callable(data) else load_for_models(models, data, **options)
    return judge(
        model,
        found,
        name=name,
        against=other,
        against_name=other_name if other_name != name else f"{other_name} (other)",
        metrics=metrics,
    )


def as_model(subject: Any) -> LinearModel:
    """A model, from a model, a ranker or a file."""
    return select_model(_opened(subject)[0], None)


def _opened(subject: Any) -> tuple[LinearModel | ModelBundle, str]:
    """A model or a bundle, and what to call it."""
    from rankine.model.store import load_any

    name = "model"
    if isinstance(subject, (str, os.PathLike)):
        name = Path(subject).name
        subject = load_any(subject)
    elif hasattr(subject, "to_model"):
        name = type(subject).__name__
        subject = subject.to_model()
    if not isinstance(subject, (LinearModel, ModelBundle)):
        raise ParameterError(
            f"cannot report on {type(subject).__name__}",
            fix="Pass a model, its file, a fitted ranker, or the result of a command",
        )
    return subject, name


def _title(model: LinearModel, data: Dataset) -> str:
    ranker = str(model.parameters.get("ranker") or "model")
    where = Path(data.sources[0]).name if data.sources else f"{data.n_queries:,} queries"
    more = f" and {len(data.sources) - 1} more" if len(data.sources) > 1 else ""
    return f"{ranker} on {where}{more}"
