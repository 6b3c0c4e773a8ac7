"""Requests to replies: score, rank, explain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from rankine.serve.errors import Refusal
from rankine.serve.items import rows_of
from rankine.serve.wire import (
    ListScores,
    RankedItem,
    RankedList,
    RankReply,
    RankRequest,
    ScoreReply,
    ScoreRequest,
    Term,
    Terms,
)

if TYPE_CHECKING:
    from rankine.model.explain import Explanation
    from rankine.scoring import Scorer
    from rankine.serve.limits import Limits
    from rankine.serve.reading import Reading, ReadList
    from rankine.serve.registry import Target

__all__ = ["explain_terms", "rank", "score"]

_DEFAULT_TERMS = 10


def score(reading: Reading[ScoreRequest], target: Target) -> ScoreReply:
    """Scores of one list or of a batch."""
    request = reading.request
    scorer, before = _scorer(request, target)
    found = []
    for one in reading.lists:
        values: list[float] = []
        if one.items:
            rows = rows_of(one, target.model.base, target.model.n_features)
            values = scorer.score(rows).tolist()
        found.append(ListScores(values, one.id))
    reply = ScoreReply(target.name, target.digest, unknown_features=scorer.unknown_count - before)
    if request.lists is UNSET:
        reply.scores = found[0].scores
    else:
        reply.lists = found
    return reply


def rank(reading: Reading[RankRequest], target: Target, limits: Limits) -> RankReply:
    """Rankings of one list or of a batch."""
    request = reading.request
    scorer, before = _scorer(request, target)
    terms = explain_terms(request)
    k = None if request.k is UNSET else request.k
    budget = limits.explained
    found = []
    for one in reading.lists:
        ranking = _rank_list(one, target, scorer, k, terms, budget)
        budget -= len(ranking) if terms is not None else 0
        found.append(RankedList(ranking, one.id))
    reply = RankReply(target.name, target.digest, unknown_features=scorer.unknown_count - before)
    if request.lists is UNSET:
        reply.ranking = found[0].ranking
    else:
        reply.lists = found
    return reply


def explain_terms(request: RankRequest) -> int | None:
    """How many contributions an explanation shall show; None for no explanation."""
    if request.explain is UNSET or request.explain is False:
        return None
    return _DEFAULT_TERMS if request.explain is True else request.explain


def _scorer(request: ScoreRequest, target: Target) -> tuple[Scorer, int]:
    scorer = target.lenient if request.unknown == "zero" else target.strict
    return scorer, scorer.unknown_count


def _rank_list(
    one: ReadList, target: Target, scorer: Scorer, k: int | None, terms: int | None, budget: int
) -> list[RankedItem]:
    if not one.items:
        return []
    rows = rows_of(one, target.model.base, target.model.n_features)
    order, scores = scorer.rank(rows, k)
    items = one.items
    ranking = [
        RankedItem(i, value, items[i].id)
        for i, value in zip(order.tolist(), scores.tolist(), strict=True)
    ]
    if terms is not None:
        if len(ranking) > budget:
            raise Refusal(
                422,
                "limit",
                "too many items to explain",
                "Ask for fewer with k, or a smaller batch",
            )
        _explain(ranking, scorer, rows, terms)
    return ranking


def _explain(ranking: list[RankedItem], scorer: Scorer, rows: Any, terms: int) -> None:
    """Why each item has its score, and what puts it before the next one."""
    explainer = scorer.explainer(rows)
    for place, item in enumerate(ranking):
        item.explanation = _terms(explainer.row(item.index), terms)
        if place + 1 < len(ranking):
            below = ranking[place + 1].index
            item.lead = _terms(explainer.pair(item.index, below), terms)


def _terms(explanation: Explanation, limit: int) -> Terms:
    shown = explanation.contributions[:limit]
    rest = explanation.contributions[limit:]
    return Terms(
        explanation.total,
        [
            Term(
                term.name,
                term.weight,
                term.value,
                term.contribution,
                UNSET if term.other is None else term.other,
            )
            for term in shown
        ],
        math.fsum(term.contribution for term in rest),
        len(rest),
    )
