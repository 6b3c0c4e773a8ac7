"""Bodies to reply bytes: read strictly, scored, ranked, explained.

No key may stand twice in an object, and nothing may exceed its limit. Errors name the item and the
column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from rankine.core.errors import RankineError
from rankine.core.safe_text import printable
from rankine.model.explain import Explanation
from rankine.scoring import InputIssues, Scorer
from rankine.serve.limits import Limits
from rankine.serve.registry import Registry, ServedScorer
from rankine.serve.schemas import (
    Item,
    ListRequest,
    ListScores,
    RankedItem,
    RankedList,
    RankReply,
    RankRequest,
    RequestError,
    ScoreReply,
    ScoreRequest,
    Term,
    Terms,
    encode_error,
)

R = TypeVar("R", bound=ScoreRequest)

_RANK = msgspec.json.Decoder(RankRequest, strict=True)
_SCORE = msgspec.json.Decoder(ScoreRequest, strict=True)
_encode = msgspec.json.Encoder().encode
_COLON = ord(":")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
#: Where msgspec's path ends at a value of a dictionary, whose key it does not tell.
_IN_DICTIONARY = re.compile(
    r" - at `\$(?:\.lists\[(\d+)\])?(?:\.items\[(\d+)\])?\.(features|raw|context)\[\.\.\.\]`$"
)
_ROW = re.compile(r"\brow (?=\d)")
_DEFAULT_TERMS = 10


class ScoringResult(NamedTuple):
    """A reply, ready to be sent, and what to count."""

    status: int
    body: bytes
    items: int = 0
    issues: InputIssues | None = None


class CsrList(NamedTuple):
    """A list of sparse rows, in the shape every CSR reader knows."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    data: NDArray[np.float64]
    shape: tuple[int, int]


class ScoringHandler:
    """Answers scoring requests.

    ``on_event_loop`` is set on the event loop: what may take long then returns None, and is asked again
    in the thread. ``strict`` refuses raw items with unknown or missing columns; otherwise they are
    counted in the reply.
    """

    def __init__(self, registry: Registry, limits: Limits, *, strict: bool = False) -> None:
        self.registry = registry
        self.limits = limits
        self.strict = strict

    def rank(self, body: bytes, on_event_loop: bool) -> ScoringResult | None:
        """Answer ``POST /v1/rank``."""
        request, lists = read(_RANK, body, self.limits)
        terms = _explain_terms(request)
        if on_event_loop and terms is not None:
            return None
        k = None if request.k is UNSET else request.k
        budget = self.limits.explained if terms is not None else math.inf

        def ranked(one: ListRequest, rows: Any, scorer: Scorer, issues: InputIssues) -> RankedList:
            nonlocal budget
            order, scores = scorer.rank(rows, k, issues=issues)
            items = one.items
            ranking = [
                RankedItem(i, value, items[i].id)
                for i, value in zip(order.tolist(), scores.tolist(), strict=True)
            ]
            budget -= len(ranking)
            if budget < 0:
                fix = "Ask for fewer with k, or a smaller batch"
                raise RequestError(422, "limit", "too many items to explain", fix)
            if terms is not None:
                _explain(ranking, scorer, rows, terms)
            return RankedList(ranking, one.id)

        return self._answer(request, lists, RankReply, ranked, RankedList([]))

    def score(self, body: bytes, on_event_loop: bool) -> ScoringResult | None:  # noqa: ARG002 - as rank
        """Answer ``POST /v1/score``."""
        request, lists = read(_SCORE, body, self.limits)

        def scored(one: ListRequest, rows: Any, scorer: Scorer, issues: InputIssues) -> ListScores:
            return ListScores(scorer.score(rows, issues=issues).tolist(), one.id)

        return self._answer(request, lists, ScoreReply, scored, ListScores([]))

    def _answer(
        self,
        request: ScoreRequest,
        lists: list[ListRequest],
        reply_type: Any,
        work: Callable[[ListRequest, Any, Scorer, InputIssues], Any],
        empty: Any,
    ) -> ScoringResult:
        target = self.registry.target(None if request.model is UNSET else request.model)
        issues = InputIssues()
        found: list[Any] = []
        try:
            for one in lists:
                if not one.items:
                    found.append(msgspec.structs.replace(empty, id=one.id))
                    continue
                rows = _rows(one, target.model.base, target.model.n_columns)
                found.append(work(one, rows, self._scorer(request, one, target), issues))
                if one.items[0].raw is not UNSET:
                    target.watch(rows)
        except RankineError as error:
            reason = _ROW.sub("item ", error.reason)
            where = "" if request.lists is UNSET else f"list {len(found)}: "
            refusal = RequestError(422, error.code, where + reason, error.fix)
            return error_result(refusal, target)
        except RequestError as refusal:
            return error_result(refusal, target)
        reply = reply_type(
            model=target.name,
            digest=target.digest,
            unknown_features=issues.unknown_features,
            unknown_columns=issues.unknown_columns,
            missing_columns=issues.missing_columns,
        )
        if request.lists is not UNSET:
            reply.lists = found
        elif reply_type is RankReply:
            reply.ranking = found[0].ranking
        else:
            reply.scores = found[0].scores
        return ScoringResult(200, _encode(reply), sum(len(one.items) for one in lists), issues)

    def _scorer(self, request: ScoreRequest, one: ListRequest, target: ServedScorer) -> Scorer:
        if target.lenient.reads_columns:
            if self.strict:
                return target.strict
            if one.items[0].raw is not UNSET:
                return target.refusing if request.unknown == "error" else target.lenient
        return target.lenient if request.unknown == "zero" else target.refusing


def error_result(refusal: RequestError, target: ServedScorer | None = None) -> ScoringResult:
    """An error reply; it names the model once one is known."""
    name, digest = (None, None) if target is None else (target.name, target.digest)
    body = encode_error(refusal.code, refusal.message, refusal.fix, name, digest)
    return ScoringResult(refusal.status, body)


# -- reading ------------------------------------------------------------------------------------


def read(
    decoder: msgspec.json.Decoder[R], body: bytes, limits: Limits
) -> tuple[R, list[ListRequest]]:
    """A request and its lists."""
    try:
        request = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise RequestError(
            422, "schema", _named_place(body, str(error)), "See /openapi.json"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(400, "json", f"the body is not JSON: {error}") from error
    lists = _lists(request, limits)
    pairs = _fields(request) + sum(_checked_pairs(one, limits) for one in lists)
    if request.lists is not UNSET:
        pairs += sum(map(_fields, request.lists))
    # Every pair has one colon outside strings. More colons than pairs: colons within strings,
    # which only an exact count can tell from a key that stands twice.
    colons = np.count_nonzero(np.frombuffer(body, dtype=np.uint8) == _COLON)
    if colons != pairs and structural_colons(body) != pairs:
        raise RequestError(400, "json", "a key stands twice in one object of the body")
    return request, lists


def structural_colons(body: bytes) -> int:
    """Colons outside strings in valid JSON: one for every key-value pair.

    Examples
    --------
    >>> structural_colons(b'{"a:b": "c:", "d": {}}')
    2
    """
    return _STRING.sub(b"", body).count(b":")


def _lists(request: ScoreRequest, limits: Limits) -> list[ListRequest]:
    if request.items is not UNSET and request.lists is UNSET:
        return [ListRequest(request.items, context=request.context)]
    if request.items is not UNSET or request.lists is UNSET:
        raise RequestError(422, "schema", "pass either items (one list) or lists (a batch)")
    if request.context is not UNSET:
        raise RequestError(422, "schema", "context beside lists", "Put it into each list")
    if len(request.lists) > limits.lists:
        raise RequestError(422, "limit", f"more than {limits.lists} lists in one request")
    return request.lists


def _checked_pairs(one: ListRequest, limits: Limits) -> int:
    """Key-value pairs in a list's items and context; every item in one form and within limits."""
    if len(one.items) > limits.items:
        raise RequestError(422, "limit", f"more than {limits.items} items in one list")
    pairs = 0 if one.context is UNSET else len(one.context)
    for number, item in enumerate(one.items):
        identified = item.id is not UNSET
        plain = item.indices is UNSET and item.values is UNSET
        if item.features is not UNSET and plain and item.raw is UNSET:
            width = len(item.features)
            pairs += 1 + width + identified
        elif item.raw is not UNSET and plain and item.features is UNSET:
            width = len(item.raw)
            pairs += 1 + width + identified
        elif (
            item.indices is not UNSET
            and item.values is not UNSET
            and item.features is UNSET
            and item.raw is UNSET
        ):
            width = len(item.indices)
            pairs += 2 + identified
        else:
            raise RequestError(
                422,
                "schema",
                f"item {number} must have features, or indices and values, or raw columns",
            )
        if width > limits.features:
            raise RequestError(422, "limit", f"more than {limits.features} features in one item")
    return pairs


def _fields(part: msgspec.Struct) -> int:
    """Fields that were present in the JSON of a struct."""
    return sum(getattr(part, name) is not UNSET for name in part.__struct_fields__)


def _named_place(body: bytes, text: str) -> str:
    """msgspec's message with the item and the column of a value that does not fit."""
    match = _IN_DICTIONARY.search(text)
    if match is None:
        return text
    try:
        found = json.loads(body, parse_int=float)
    except (ValueError, RecursionError):
        return text
    part, item, form = match.groups()
    whole = found if part is None else found["lists"][int(part)]
    of_list = "" if part is None else f" of list {part}"
    where = f"context{of_list}" if item is None else f"item {item}{of_list}"
    for name, value in (whole if item is None else whole["items"][int(item)])[form].items():
        number = value is None or (isinstance(value, float) and math.isfinite(value))
        if not number and (form == "features" or isinstance(value, (float, list, dict))):
            wanted = "a number or null" if form == "features" else "text, a number, a bool or null"
            shown = printable(json.dumps(value), 40)
            return f"{where}: {printable(name)!r} in {form} is {shown}, not {wanted}"
    return text


# -- items as the rows a scorer takes -----------------------------------------------------------


def _rows(one: ListRequest, base: int, n_features: int) -> Any:
    """Rows of one list: named features, raw columns, or CSR for indices and values."""
    first, size = one.items[0], len(one.items)
    if one.context is not UNSET and first.raw is UNSET:
        raise RequestError(422, "schema", "context goes with raw items only")
    rows: list[Any]
    if first.features is not UNSET:
        rows = [item.features for item in one.items if item.features is not UNSET]
    elif first.raw is not UNSET:
        rows = [item.raw for item in one.items if item.raw is not UNSET]
        if one.context is not UNSET:
            rows = [{**one.context, **row} for row in rows]
    else:
        rows = [item for item in one.items if item.indices is not UNSET]
    if len(rows) != size:
        raise RequestError(422, "schema", "the items of one list differ in form")
    return rows if first.indices is UNSET else _csr(rows, base, n_features)


def _csr(items: list[Item], base: int, n_features: int) -> CsrList:
    columns: list[list[int]] = [item.indices for item in items if item.indices is not UNSET]
    numbers: list[list[float]] = [item.values for item in items if item.values is not UNSET]
    sizes = np.fromiter(map(len, columns), np.int64, len(items))
    if not np.array_equal(sizes, np.fromiter(map(len, numbers), np.int64, len(items))):
        raise RequestError(422, "schema", "an item has more indices than values, or fewer")
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    total = int(indptr[-1])
    try:
        indices = np.fromiter(chain.from_iterable(columns), np.int64, total) - base
    except OverflowError as error:
        raise _outside(base, n_features) from error
    if total and not (indices.min() >= 0 and indices.max() < n_features):
        raise _outside(base, n_features)
    rising = np.diff(indices) > 0
    starts = indptr[1:-1]
    rising[starts[(starts > 0) & (starts < total)] - 1] = True  # a new item may start anywhere
    if not rising.all():
        raise RequestError(422, "schema", "the indices of an item are not strictly increasing")
    data = np.fromiter(chain.from_iterable(numbers), np.float64, total)
    return CsrList(indptr, indices, data, (len(items), n_features))


def _outside(base: int, n_features: int) -> RequestError:
    return RequestError(
        422,
        "feature-mismatch",
        f"an index is outside {base} .. {n_features - 1 + base}",
        "Count features as in the model's text files",
    )


# -- explanations -------------------------------------------------------------------------------


def _explain_terms(request: RankRequest) -> int | None:
    """How many contributions an explanation shall show; None for no explanation."""
    if request.explain is UNSET or request.explain is False:
        return None
    return _DEFAULT_TERMS if request.explain is True else request.explain


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
                UNSET if term.where is None else term.where,
            )
            for term in shown
        ],
        math.fsum(term.contribution for term in rest),
        len(rest),
    )
