"""``rankine.report``: one door for every kind of result."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset

if TYPE_CHECKING:
    from rankine.model import LinearModel
    from rankine.report.judged import Judged
    from rankine.report.page import Report

__all__ = ["as_model", "judge_subject", "report"]


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
        Labelled data that the model has not seen: a ``Dataset`` or what ``rankine.load`` reads.
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
    >>> from rankine.data.shop import shop_log
    >>> log = shop_log(60)
    >>> train, test = log.take_queries(range(40)), log.take_queries(range(40, 60))
    >>> page = rankine.report(rankine.RankSVM(scale="standard").fit(train), test)
    >>> page.figures["headline"][0]["metric"]
    'ndcg@10'
    """
    from rankine.report.results import result_report

    finished = result_report(subject, title=title, command=command)
    if finished is not None and data is None:
        return finished
    from rankine.report.model_report import model_report

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
    from rankine.logs.scan import read_for
    from rankine.report.judged import judge

    model, name = as_model(subject, topic)
    if data is None:
        raise ParameterError(
            "a model is judged on data", fix="Pass labelled data that it has not seen"
        )
    other, other_name = (None, "") if against is None else as_model(against, topic)
    found = data if isinstance(data, Dataset) else read_for(model, data, **options)
    return judge(
        model,
        found,
        name=name,
        against=other,
        against_name=other_name if other_name != name else f"{other_name} (other)",
        metrics=metrics,
    )


def as_model(subject: Any, topic: str | None = None) -> tuple[LinearModel, str]:
    """A model and what to call it, from a model, a ranker, a bundle or a file."""
    from rankine.model import LinearModel, ModelBundle
    from rankine.model.store import load_any

    name = "model"
    if isinstance(subject, (str, os.PathLike)):
        name = Path(subject).name
        subject = load_any(subject)
    elif hasattr(subject, "to_model"):
        name = type(subject).__name__
        subject = subject.to_model()
    if isinstance(subject, ModelBundle):
        if topic is None or topic not in subject:
            raise ParameterError(
                f"this is a bundle of {len(subject)} models"
                + ("" if topic is None else f" without topic {topic!r}"),
                fix="Name one of its topics (topic=, --topic); rankine inspect lists them",
            )
        subject, name = subject[topic], topic
    if not isinstance(subject, LinearModel):
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
