"""Make reports: ``rankine.report`` for every kind of result, and the report of a model on data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.errors import ParameterError
from rankine.core.safe_text import mask_secrets
from rankine.data.dataset import Dataset
from rankine.logs.encoding import monitor_log
from rankine.model import LinearModel, ModelBundle
from rankine.model.bundle import select_model
from rankine.model.tables import find_tables
from rankine.reporting.additive import pictures, tables_section
from rankine.reporting.breakdown import (
    curve_metrics,
    curves,
    curves_section,
    differences,
    extremes,
    queries_section,
    spread,
)
from rankine.reporting.data import data_section, data_summary, drift_section
from rankine.reporting.evaluated import EvaluatedModel, evaluate_model
from rankine.reporting.headline import headline, headline_section, headline_tiles, summary
from rankine.reporting.origin import origin, origin_section
from rankine.reporting.page import Report, Section, make_report
from rankine.reporting.pareto import front_section
from rankine.reporting.position_bias import position_bias, position_note
from rankine.reporting.query_lists import Ranked, query_lists, ranked_query
from rankine.reporting.reliability import reliability, reliability_section
from rankine.reporting.score_gaps import score_gaps, score_gaps_section
from rankine.reporting.training import training, training_section
from rankine.reporting.weights import size_curve, size_section, weights, weights_section
from rankine.transforms.drift import Drift, summary_of

if TYPE_CHECKING:
    from rankine.evaluation.pareto import ParetoFront


def model_report(
    evaluated: EvaluatedModel,
    *,
    title: str,
    n_queries: int = 3,
    seed: int = 0,
    command: str | None = None,
    front: ParetoFront | None = None,
) -> Report:
    """Measure everything that the page shows, and build its sections."""
    model, data, metric = evaluated.model, evaluated.data, evaluated.metric
    heads = [headline(evaluated, each, seed) for each in evaluated.metrics]
    # Everything is measured before the page is built: figures and page show the same numbers.
    made_by = origin(model, data)
    learned = weights(evaluated.view, evaluated.effect)
    measured = [curves(evaluated, each, seed) for each in curve_metrics(evaluated)]
    by_depth = [each for each in measured if each is not None]
    distribution = spread(evaluated, metric)
    gaps = differences(evaluated, metric, evaluated.rival)
    groups = _query_groups(evaluated, n_queries)
    size = size_curve(evaluated, metric)
    gaps_of_scores = score_gaps(evaluated, seed)
    trace = training(model)
    summarised = data_summary(evaluated)
    bias = position_bias(evaluated)
    numbers: dict[str, Any] = {
        "headline": heads,
        "refused": evaluated.refused,
        "position_bias": bias,
        "weights": learned,
        "training": trace,
        "data": summarised,
        "origin": made_by,
        "curves": by_depth,
        "queries": distribution,
        "differences": gaps,
        "lists": dict(groups),
        "size": size,
        "score_gaps": gaps_of_scores,
    }
    sections: list[Section | None] = [
        headline_section(evaluated, heads, made_by, position_note(bias, heads[0])),
        curves_section(by_depth),
        queries_section(distribution, gaps, metric.title, query_lists(groups, metric.title)),
    ]
    # A model of tables shows curves and heat maps in place of weights.
    tables = find_tables(model)
    if tables is None:
        sections.append(weights_section(learned, effects=True))
    else:
        sections.append(tables_section(tables, data, learned))
        numbers["tables"] = pictures(tables, data)
    if size is not None:
        sections.append(size_section(size, metric.title))
    if gaps_of_scores is not None:
        sections.append(score_gaps_section(gaps_of_scores))
    probabilities = reliability(model, evaluated)
    if probabilities is not None:
        sections.append(reliability_section(probabilities))
        numbers["reliability"] = probabilities
    sections += [training_section(trace), data_section(summarised)]
    # Drift is measured on raw columns against the summary that training stored in the model.
    if data.encoding is not None and summary_of(model) is not None:
        drift = Drift.from_monitor(monitor_log(model, [data]))
        numbers["drift"] = drift.to_dict()
        sections.append(drift_section(drift))
    if front is not None:
        numbers["front"] = front.to_dict()
        sections.append(front_section(front))
    sections.append(origin_section(made_by, command))
    tiles = headline_tiles(evaluated, heads)
    return make_report(title, "rankine report", summary(heads), tiles, sections, numbers)


def _query_groups(evaluated: EvaluatedModel, n: int) -> list[tuple[str, Sequence[Ranked]]]:
    """Return the worst and best queries, and those that changed most against another model."""
    metric = evaluated.metric
    values = evaluated.values(evaluated.opponents[0], metric)
    rival = evaluated.opponent("against", "shown")
    # NaN: there is nothing to compare a query with.
    rival_values = np.full(len(values), np.nan)
    if rival is not None:
        rival_values = evaluated.values(rival, metric)

    def ranked(queries: Sequence[int]) -> list[Ranked]:
        lists = []
        for q in queries:
            rival_value = None
            if np.isfinite(rival_values[q]):
                rival_value = float(rival_values[q])
            lists.append(ranked_query(evaluated, q, float(values[q]), rival, rival_value))
        return lists

    larger_is_better = metric.larger_is_better
    worst, best = extremes(evaluated, values, n, larger_is_better=larger_is_better)
    groups = [("Worst queries", ranked(worst)), ("Best queries", ranked(best))]
    if rival is not None and rival.kind == "against":
        change = values - rival_values
        lost, won = extremes(evaluated, change, n, larger_is_better=larger_is_better)
        gain = change
        if not larger_is_better:
            gain = -change
        groups += [
            ("Lost most against the other model", ranked([q for q in lost if gain[q] < 0])),
            ("Won most against the other model", ranked([q for q in won if gain[q] > 0])),
        ]
    return [(title, lists) for title, lists in groups]


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
    front: ParetoFront | None = None,
    **options: Any,
) -> Report:
    """Make a report: a self-contained HTML page, and the numbers behind it.

    Parameters
    ----------
    subject
        A ``LinearModel``, its file, or a fitted ranker (all need ``data``); or a finished
        ``TuningResult``, ``Comparison`` (or several of them), ``LetorResult``,
        ``RegularizationPath`` or ``ParetoFront``.
    data
        Labelled data that the model has not seen: a ``Dataset``, a raw log, what ``rankine.load``
        reads, or a function that reads it for the given models.
    against
        Another model, file or fitted ranker to compare with.
    metric
        Metric of the headline, or several metrics; by default the model's own.
    title
        Title of the page; by default made of the ranker and the data.
    topic
        The model of a bundle to report on.
    n_queries
        Number of worst and of best queries to show.
    random_state
        Seed of the resampling.
    command
        Command to show as the one that makes the page again.
    front
        Front of several goals (``rankine.pareto``) to draw on the page of a model.
    **options
        Options of ``rankine.load``, if ``data`` is a path.

    Returns
    -------
    Report
        Has ``save(path)``, ``html`` and ``figures``; notebooks display the page.

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

    # Without data the subject must be a result that has its numbers already.
    finished = None
    if data is None:
        finished = result_report(subject, title=title, command=command)
    if finished is not None:
        evaluation = {"against": against, "metric": metric, "topic": topic, "front": front}
        evaluation |= options
        for parameter, value in evaluation.items():
            if value is not None:
                raise ParameterError(
                    "has no effect on a finished result",
                    fix="Leave it out, or pass a model and data",
                    parameter=parameter,
                )
        return finished

    if isinstance(metric, str):
        metric = [metric]
    evaluated = evaluate_subject(
        subject,
        data,
        against=against,
        metrics=metric,
        topic=topic,
        **options,
    )
    return model_report(
        evaluated,
        title=title or _title(evaluated.model, evaluated.data),
        n_queries=n_queries,
        seed=random_state,
        command=command,
        front=front,
    )


def evaluate_subject(
    subject: Any,
    data: Any,
    *,
    against: Any = None,
    metrics: Sequence[str] | None = None,
    topic: str | None = None,
    **options: Any,
) -> EvaluatedModel:
    """Evaluate a model, its file or a fitted ranker on labelled data of any kind."""
    from rankine.evaluation.systems import load_for_models

    if data is None:
        raise ParameterError(
            "a model needs labelled data to be evaluated on",
            fix="Pass labelled data that the model has not seen",
            parameter="data",
        )
    opened = [_open(each) for each in (subject, against) if each is not None]
    has_bundle = any(isinstance(each, ModelBundle) for each, _ in opened)
    models, names = [], []
    for each, name in opened:
        # The topic selects a model of a bundle. It does not apply to a single model next to one.
        if has_bundle and isinstance(each, LinearModel):
            models.append(each)
            names.append(name)
        else:
            models.append(select_model(each, topic))
            names.append(topic or name)
    # Two files of one name in two folders.
    if names[1:] == names[:1]:
        names[1] = f"{names[1]} (other)"
    # The command line reads the data when it knows the models, whose columns it needs.
    if callable(data):
        dataset = data(models)
    else:
        dataset = load_for_models(models, data, **options)
    other_model = None
    if len(models) > 1:
        other_model = models[1]
    return evaluate_model(
        models[0],
        dataset,
        name=names[0],
        against=other_model,
        against_name=names[-1],
        metrics=metrics,
    )


def as_model(subject: Any) -> LinearModel:
    """Return the model of a model, a fitted ranker or a file."""
    return select_model(_open(subject)[0], None)


def _open(subject: Any) -> tuple[LinearModel | ModelBundle, str]:
    """Return a model or a bundle, and its name on the page."""
    from rankine.model.store import load_any

    name = "model"
    if isinstance(subject, (str, os.PathLike)):
        name = mask_secrets(Path(subject).name)
        subject = load_any(subject)
    elif hasattr(subject, "to_model"):
        name = type(subject).__name__
        subject = subject.to_model()
    if not isinstance(subject, (LinearModel, ModelBundle)):
        raise ParameterError(
            f"cannot report on {type(subject).__name__}",
            fix="Pass a model, its file, a fitted ranker, or the result of a command",
            parameter="subject",
        )
    return subject, name


def _title(model: LinearModel, data: Dataset) -> str:
    ranker = model.parameters.get("ranker") or "model"
    if not data.sources:
        return f"{ranker} on {data.n_queries:,} queries"
    title = f"{ranker} on {Path(data.sources[0]).name}"
    if len(data.sources) > 1:
        title += f" and {len(data.sources) - 1} more"
    return title
