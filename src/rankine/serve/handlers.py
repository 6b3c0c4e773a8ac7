"""Handle scoring requests: decode the body, check limits, score, rank and explain.

A request is refused if a key is repeated in an object or a limit is exceeded. Errors name the item
and the column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from time import time_ns
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from rankine.core.errors import RankineError
from rankine.core.safe_text import printable
from rankine.core.specs import History
from rankine.history.live import LiveHistory, Shown
from rankine.history.rows import parse_time
from rankine.model import LinearModel
from rankine.model.explain import Contribution, Explanation
from rankine.reranking import Rules
from rankine.reranking.rules import RuleRanking
from rankine.reranking.schema import RuleSet
from rankine.scoring import InputIssues, Scorer
from rankine.scoring.rows import rule_columns
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
    RemovedItem,
    RequestError,
    RuleConflict,
    RuleReport,
    ScoreReply,
    ScoreRequest,
    Term,
    Terms,
    encode_error,
)

R = TypeVar("R", bound=ScoreRequest)
D = TypeVar("D")

_RANK = msgspec.json.Decoder(RankRequest, strict=True)
_SCORE = msgspec.json.Decoder(ScoreRequest, strict=True)
_RULES: msgspec.json.Decoder[RuleSet | bool] = msgspec.json.Decoder(RuleSet | bool, strict=True)
_MAX_RULES_BYTES, _MAX_RULES = 1 << 16, 64
_encode = msgspec.json.Encoder().encode
_COLON = ord(":")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
#: Path in an error of msgspec that ends in a dictionary; msgspec does not name the key.
_PATH_IN_DICTIONARY = re.compile(
    r" - at `\$(?:\.lists\[(\d+)\])?(?:\.items\[(\d+)\])?\.(features|raw|context)\[\.\.\.\]`$"
)
_DEFAULT_TERMS = 10


class ScoringResult(NamedTuple):
    """Encoded reply, and the numbers that the metrics count."""

    status: int
    body: bytes
    n_items: int = 0
    issues: InputIssues | None = None


class SparseItems(NamedTuple):
    """Sparse rows with the attributes of a SciPy CSR array."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    data: NDArray[np.float64]
    shape: tuple[int, int]


class ScoringHandler:
    """Handles scoring requests.

    On the event loop (``on_event_loop``), a method returns None for a request that may take long;
    the caller then calls it again in the thread for large requests.

    Parameters
    ----------
    strict
        Whether raw items with unknown or missing columns are refused. Otherwise these are counted
        in the reply.
    record
        Called with lists that the request wants to be recorded; returns whether they will be.
    """

    def __init__(
        self,
        registry: Registry,
        limits: Limits,
        *,
        strict: bool = False,
        record: Callable[[list[Shown]], bool] = lambda _: False,
    ) -> None:
        self.registry = registry
        self.limits = limits
        self.strict = strict
        self._record = record

    def rank(self, body: bytes, on_event_loop: bool) -> ScoringResult | None:
        """Handle ``POST /v1/rank``."""
        request, lists = decode_request(_RANK, body, self.limits)
        n_terms = _n_explained_terms(request)
        if on_event_loop and n_terms is not None:
            return None
        k = None if request.k is UNSET else request.k
        n_explainable = math.inf if n_terms is None else self.limits.explained
        shown: list[Shown] = []

        def rank_list(
            each: ListRequest,
            time: int,
            rows: Any,
            scorer: Scorer,
            rules: Rules | None,
            issues: InputIssues,
        ) -> RankedList:
            nonlocal n_explainable
            items = each.items
            moves: RuleRanking | None = None
            if rules is None and request.probability is not True:
                order, scores = scorer.rank(rows, k, issues=issues)
            else:
                all_scores = scorer.score(rows, issues=issues)
                order = np.argsort(-all_scores, kind="stable")[:k]
                if rules is not None:
                    read, explains = _rule_columns(each, rows), n_terms is not None
                    moves = rules.rank(all_scores, read, k, time=time / 1e6, explain=explains)
                    order = moves.order
                scores = all_scores[order]
            ranking = [
                RankedItem(row, score, items[row].id)
                for row, score in zip(order.tolist(), scores.tolist(), strict=True)
            ]
            if request.probability is True:
                # The probability of an item depends on all scores of its list, and on its rank.
                positions = np.ones(len(all_scores), dtype=np.int64)
                positions[order] = np.arange(1, len(order) + 1)
                probabilities = scorer.probabilities(all_scores, None, positions)[order]
                for item, value in zip(ranking, probabilities.tolist(), strict=True):
                    item.probability = value
            n_explainable -= len(ranking)
            if n_explainable < 0:
                fix = "Set a smaller k, or send fewer lists"
                raise RequestError(422, "limit", "too many items to explain", fix)
            if n_terms is not None:
                _explain(ranking, scorer, rows, n_terms)
            if request.record is True:
                ids = [item.id for item in ranking]
                shown.append(_shown(each.id, time, ids, [rows[item.index] for item in ranking]))
            result = RankedList(ranking)
            if moves is not None and n_terms is not None:
                result.rules = _explain_moves(ranking, moves, items)
            return result

        return self._handle(request, lists, RankReply, rank_list, RankedList([]), shown)

    def score(self, body: bytes, on_event_loop: bool) -> ScoringResult | None:  # noqa: ARG002 - as rank
        """Handle ``POST /v1/score``."""
        request, lists = decode_request(_SCORE, body, self.limits)

        def score_list(
            each: ListRequest,
            time: int,
            rows: Any,
            scorer: Scorer,
            rules: Rules | None,
            issues: InputIssues,
        ) -> ListScores:
            scores = scorer.score(rows, issues=issues)
            result = ListScores(scores.tolist())
            if request.probability is True:
                result.probabilities = scorer.probabilities(scores).tolist()
            return result

        return self._handle(request, lists, ScoreReply, score_list, ListScores([]))

    def _handle(
        self,
        request: ScoreRequest,
        lists: list[ListRequest],
        reply_type: Any,
        handle_list: Callable[[ListRequest, int, Any, Scorer, Rules | None, InputIssues], Any],
        empty: Any,
        shown: list[Shown] | None = None,
    ) -> ScoringResult:
        """Handle each list and encode the reply, or the first error."""
        served = self.registry.find(None if request.model is UNSET else request.model)
        issues = InputIssues()
        results: list[Any] = []
        try:
            if request.probability is True:
                _ = served.lenient.probabilities  # an error without a calibration
            rules = self._rules(request, served)
            time = self._time(request, served, rules)
            for each in lists:
                result = empty
                if each.items:
                    rows = _rows(each, served.model, has_rules=rules is not None)
                    if served.live is not None:
                        self._add_history(rows, each, time, served, served.live, issues)
                    _name_items(each.items, served.item_column)
                    scorer = self._scorer(request, each, served)
                    result = handle_list(each, time, rows, scorer, rules, issues)
                    if each.items[0].raw is not UNSET:
                        served.monitor_drift(rows)
                results.append(msgspec.structs.replace(result, id=each.id))
        except RankineError as error:
            message = error.reason
            if error.row is not None:
                message = f"item {error.row}: {message}"
            if request.lists is not UNSET:
                message = f"list {len(results)}: {message}"
            return error_result(RequestError(422, error.code, message, error.fix), served)
        except RequestError as error:
            return error_result(error, served)
        reply = reply_type(
            model=served.name,
            digest=served.digest,
            unknown_features=issues.unknown_features,
            unknown_columns=issues.unknown_columns,
            missing_columns=issues.missing_columns,
        )
        if request.lists is not UNSET:
            reply.lists = results
        elif reply_type is RankReply:
            reply.ranking, reply.rules = results[0].ranking, results[0].rules
        else:
            reply.scores, reply.probabilities = results[0].scores, results[0].probabilities
        if shown:
            reply.recorded = self._record(shown)
        return ScoringResult(200, _encode(reply), sum(len(each.items) for each in lists), issues)

    def _rules(self, request: ScoreRequest, served: ServedScorer) -> Rules | None:
        """Return the rules of a request for a ranking: its own, or the model's rules file."""
        if not isinstance(request, RankRequest):
            return None
        own: Rules | bool = True
        if request.rules is not UNSET:
            own = read_request_rules(bytes(request.rules))[0]
        if isinstance(own, Rules):
            return own
        if not own:
            return None
        rules = self.registry.rules_of(served)
        if rules is None and request.rules is not UNSET:
            raise RequestError(
                422, "schema", "rules: the model has no rules file", "Send the rules"
            )
        return rules

    def _time(self, request: ScoreRequest, served: ServedScorer, rules: Rules | None) -> int:
        """Return the time of the lists in microseconds."""
        if served.live is not None:
            return read_time(request.time, served.live.history, self.limits)
        if getattr(request, "record", False) is True:
            raise _no_effect("record: the model has no history features")
        if request.time is UNSET:
            return time_ns() // 1000
        if rules is None:
            raise _no_effect("time: the model has neither history features nor rules")
        return parse_time(request.time, "s")

    def _add_history(
        self,
        rows: Any,
        each: ListRequest,
        time: int,
        served: ServedScorer,
        live: LiveHistory,
        issues: InputIssues,
    ) -> None:
        """Compute the history features of raw rows, and add them as columns."""
        history, reader = live.history, live.state.reader
        if each.items[0].raw is UNSET:
            raise RequestError(
                422, "schema", "history features need raw items", "Send raw columns and context"
            )
        computed = set().union(*rows).intersection(history.names)
        if computed:
            name = printable(min(computed))
            raise RequestError(
                422, "schema", f"{name!r} is computed by the server", "Leave the column out"
            )
        columns = {name: [row.get(name) for row in rows] for name in reader.key_columns}
        missing = {}
        for name, column in columns.items():
            # The scorer counts the columns that it reads itself.
            if None in column and name not in served.refusing.required:
                missing[name] = sum(name not in row for row in rows)
        missing = {name: count for name, count in missing.items() if count}
        if missing and self.strict:
            raise RequestError(
                422,
                "feature-mismatch",
                f"items lack columns of history features: {', '.join(map(repr, missing))}",
                "Send the column, with null for missing values",
            )
        issues.add(missing=missing)
        require_complete(live)
        values = live.read(time, reader.read_keys(columns, len(rows)))
        for row, row_values in zip(rows, values.tolist(), strict=True):
            row.update(zip(history.names, row_values, strict=True))

    def _scorer(self, request: ScoreRequest, each: ListRequest, served: ServedScorer) -> Scorer:
        """Return the scorer that treats unknown names as the request demands."""
        if served.lenient.reads_columns:
            if self.strict:
                return served.strict
            if each.items[0].raw is not UNSET:
                # Raw items are lenient by default: logs gain columns that no model reads.
                return served.refusing if request.unknown == "error" else served.lenient
        return served.lenient if request.unknown == "zero" else served.refusing


def _no_effect(message: str) -> RequestError:
    return RequestError(422, "schema", message, "Leave it out")


def error_result(error: RequestError, served: ServedScorer | None = None) -> ScoringResult:
    """Encode an error, with the name of the model if a model was found."""
    name = digest = None
    if served is not None:
        name, digest = served.name, served.digest
    body = encode_error(error.code, error.message, error.fix, name, digest)
    return ScoringResult(error.status, body)


# -- decoding -----------------------------------------------------------------------------------


def decode_request(
    decoder: msgspec.json.Decoder[R], body: bytes, limits: Limits
) -> tuple[R, list[ListRequest]]:
    """Decode and check a request; return it and its lists."""
    request = decode_json(decoder, body)
    lists = _lists(request, limits)
    n_pairs = count_fields(request) + sum(_check_items(each, limits) for each in lists)
    if getattr(request, "rules", UNSET) is not UNSET:
        n_pairs += read_request_rules(bytes(request.rules))[1]  # type: ignore[attr-defined]
    if request.lists is not UNSET:
        n_pairs += sum(map(count_fields, request.lists))
    check_repeated_keys(body, n_pairs)
    return request, lists


@lru_cache(maxsize=64)
def read_request_rules(content: bytes) -> tuple[Rules | bool, int]:
    """Return the rules of a request, and their number of key-value pairs.

    The rules that requests repeat are read once.
    """
    if len(content) > _MAX_RULES_BYTES:
        raise RequestError(
            422, "limit", f"rules: more than {_MAX_RULES_BYTES:,} bytes", "Send fewer rules"
        )
    parsed = decode_json(_RULES, content)
    if isinstance(parsed, bool):
        return parsed, 0
    if sum(1 for _ in parsed.entries()) > _MAX_RULES:
        raise RequestError(422, "limit", f"more than {_MAX_RULES} rules", "Send fewer rules")
    try:
        rules = Rules(parsed)
    except RankineError as error:
        raise RequestError(422, error.code, f"rules: {error.reason}", error.fix) from error
    return rules, _count_pairs(msgspec.json.decode(content))


def _count_pairs(value: Any) -> int:
    """Count the key-value pairs of decoded JSON."""
    if isinstance(value, dict):
        return len(value) + sum(map(_count_pairs, value.values()))
    if isinstance(value, list):
        return sum(map(_count_pairs, value))
    return 0


def decode_json(decoder: msgspec.json.Decoder[D], body: bytes) -> D:
    """Decode a body."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message = _name_item_and_column(body, str(error))
        raise RequestError(422, "schema", message, "See /openapi.json") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(400, "json", f"the body is not JSON: {error}") from error


def check_repeated_keys(body: bytes, n_pairs: int) -> None:
    """Raise if a body has more pairs of keys and values than what was decoded."""
    # msgspec keeps the last of repeated keys. JSON has one colon outside strings for each pair of
    # key and value, so a repeated key shows as a colon too many. Colons inside strings make the
    # fast count too high; only then are strings removed for an exact count.
    n_colons = np.count_nonzero(np.frombuffer(body, dtype=np.uint8) == _COLON)
    if n_colons != n_pairs and count_structural_colons(body) != n_pairs:
        raise RequestError(400, "json", "a key is repeated in one object of the body")


def count_structural_colons(body: bytes) -> int:
    """Count the colons outside strings in valid JSON: one for each key-value pair.

    Examples
    --------
    >>> count_structural_colons(b'{"a:b": "c:", "d": {}}')
    2
    """
    return _STRING.sub(b"", body).count(b":")


def _lists(request: ScoreRequest, limits: Limits) -> list[ListRequest]:
    """Return the lists of a request; ``items`` are a single list."""
    if request.items is not UNSET and request.lists is UNSET:
        list_id = getattr(request, "id", UNSET)
        return [ListRequest(request.items, list_id, request.context)]
    if request.items is not UNSET or request.lists is UNSET:
        raise RequestError(422, "schema", "pass either items (one list) or lists (a batch)")
    for name in ("context", "id"):
        if getattr(request, name, UNSET) is not UNSET:
            raise RequestError(
                422, "schema", f"{name} cannot be combined with lists", "Put it into each list"
            )
    if len(request.lists) > limits.lists:
        raise RequestError(422, "limit", f"more than {limits.lists} lists in one request")
    return request.lists


def _check_items(each: ListRequest, limits: Limits) -> int:
    """Check the form and size of items; return the number of key-value pairs in the list."""
    if len(each.items) > limits.items:
        raise RequestError(422, "limit", f"more than {limits.items} items in one list")
    n_pairs = 0
    if each.context is not UNSET:
        n_pairs = len(each.context)
    for number, item in enumerate(each.items):
        has_id = item.id is not UNSET
        has_no_indices = item.indices is UNSET and item.values is UNSET
        if item.features is not UNSET and has_no_indices and item.raw is UNSET:
            width = len(item.features)
            n_pairs += 1 + width + has_id
        elif item.raw is not UNSET and has_no_indices and item.features is UNSET:
            width = len(item.raw)
            n_pairs += 1 + width + has_id
        elif (
            item.indices is not UNSET
            and item.values is not UNSET
            and item.features is UNSET
            and item.raw is UNSET
        ):
            width = len(item.indices)
            n_pairs += 2 + has_id
        else:
            raise RequestError(
                422,
                "schema",
                f"item {number} must have features, or indices and values, or raw columns",
            )
        if item.columns is not UNSET:
            width = max(width, len(item.columns))
            n_pairs += 1 + len(item.columns)
        if width > limits.features:
            raise RequestError(422, "limit", f"more than {limits.features} features in one item")
    return n_pairs


def count_fields(part: msgspec.Struct) -> int:
    """Count the fields that the JSON of a struct contained."""
    return sum(getattr(part, name) is not UNSET for name in part.__struct_fields__)


def _name_item_and_column(body: bytes, message: str) -> str:
    """Return msgspec's message with the item and the column of the value of a wrong type."""
    match = _PATH_IN_DICTIONARY.search(message)
    if match is None:
        return message
    try:
        parsed = json.loads(body, parse_int=float)
    except (ValueError, RecursionError):
        return message
    list_number, item_number, form = match.groups()
    container = parsed if list_number is None else parsed["lists"][int(list_number)]
    location = "context" if item_number is None else f"item {item_number}"
    if list_number is not None:
        location += f" of list {list_number}"
    if item_number is not None:
        container = container["items"][int(item_number)]
    for name, value in container[form].items():
        is_number = value is None or (isinstance(value, float) and math.isfinite(value))
        if not is_number and (form == "features" or isinstance(value, (float, list, dict))):
            expected = "a number or null"
            if form != "features":
                expected = "text, a number, a bool or null"
            text = printable(json.dumps(value), 40)
            return f"{location}: {printable(name)!r} in {form} is {text}, not {expected}"
    return message


def read_time(time: str | float | UnsetType, history: History, limits: Limits) -> int:
    """Return a time of a request in microseconds; default: now."""
    now = time_ns() // 1000
    if time is UNSET:
        return now
    microseconds = parse_time(time, history.time_unit)
    # A far future time would be the time of every list from then on: the clock never goes back.
    if microseconds > now + limits.future_seconds * 10**6:
        raise RequestError(
            422,
            "limit",
            f"the time is more than {limits.future_seconds:g} s ahead of the server's clock",
            f"Numbers are times in {history.time_unit} since 1970, as in the training log",
        )
    return microseconds


def require_complete(live: LiveHistory) -> None:
    """Raise an error after a change of the state has failed, until the state is read again."""
    if live.changes.has_failed:
        raise RequestError(
            503, "state", "the state is read again after an error", "Send the request again later"
        )


def _shown(
    list_id: str | int | UnsetType,
    time: int,
    items: list[str | int | UnsetType],
    rows: list[dict[str, Any]],
) -> Shown:
    """Return a ranked list as an event."""
    item_ids = [item for item in items if item not in (UNSET, "")]
    if list_id in (UNSET, "") or len(item_ids) != len(items):
        raise RequestError(
            422, "schema", "record needs an id of the list, and of every item", "Add id"
        )
    return Shown(None, list_id, time, item_ids, rows)


# -- items as rows ------------------------------------------------------------------------------


def _rows(each: ListRequest, model: LinearModel, *, has_rules: bool) -> Any:
    """Return the rows of a list for a scorer: named features, raw columns, or CSR."""
    first = each.items[0]
    if each.context is not UNSET and first.raw is UNSET and not has_rules:
        raise RequestError(422, "schema", "context goes with raw items, or with rules")
    rows: list[Any]
    if first.features is not UNSET:
        rows = [item.features for item in each.items if item.features is not UNSET]
    elif first.raw is not UNSET:
        rows = [item.raw for item in each.items if item.raw is not UNSET]
        if each.context is not UNSET:
            rows = [{**each.context, **row} for row in rows]
    else:
        rows = [item for item in each.items if item.indices is not UNSET]
    if len(rows) != len(each.items):
        raise RequestError(422, "schema", "the items of one list differ in form")
    return rows if first.indices is UNSET else _csr(rows, model.base, model.n_columns)


def _rule_columns(each: ListRequest, rows: Any) -> Callable[[str], Any]:
    """Return a function that reads a column for rules, from items, rows, context or ids."""
    items, context = each.items, each.context
    read_rows = rule_columns(rows, {})

    def read(name: str) -> Any:
        if any(item.columns is not UNSET and name in item.columns for item in items):
            return [None if item.columns is UNSET else item.columns.get(name) for item in items]
        values = read_rows(name)
        if values is None and context is not UNSET and name in context:
            return [context[name]] * len(items)
        if values is None and name == "id":
            return [None if item.id is UNSET else item.id for item in items]
        return values

    return read


def _csr(items: list[Item], base: int, n_features: int) -> SparseItems:
    """Build CSR rows of items with indices and values, and check the indices."""
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
    is_rising = np.diff(indices) > 0
    # The first index of an item may be smaller than the last one of the item before.
    starts = indptr[1:-1]
    is_rising[starts[(starts > 0) & (starts < total)] - 1] = True
    if not is_rising.all():
        raise RequestError(422, "schema", "the indices of an item are not strictly increasing")
    data = np.fromiter(chain.from_iterable(numbers), np.float64, total)
    return SparseItems(indptr, indices, data, (len(items), n_features))


def _outside(base: int, n_features: int) -> RequestError:
    return RequestError(
        422,
        "feature-mismatch",
        f"an index is outside {base} .. {n_features - 1 + base}",
        "Number features as in the text files that the model was trained on",
    )


# -- explanations -------------------------------------------------------------------------------


def _name_items(items: list[Item], column: str | None) -> None:
    """Take the ids of raw items that have none from the item column of the training log."""
    for item in items:
        if column is not None and item.id is UNSET and item.raw is not UNSET:
            value = item.raw.get(column)
            if isinstance(value, (str, int)):
                item.id = value


def _n_explained_terms(request: RankRequest) -> int | None:
    """Return how many contributions to list per item; None for no explanation."""
    if request.explain is UNSET or request.explain is False:
        return None
    if request.explain is True:
        return _DEFAULT_TERMS
    return request.explain


def _explain(ranking: list[RankedItem], scorer: Scorer, rows: Any, n_terms: int) -> None:
    """Add to each item the contributions to its score and to its lead over the next item."""
    explainer = scorer.explainer(rows)
    for i, item in enumerate(ranking):
        item.explanation = _terms(explainer.row(item.index), n_terms)
        if i + 1 < len(ranking):
            item.lead = _terms(explainer.pair(item.index, ranking[i + 1].index), n_terms)


def _explain_moves(ranking: list[RankedItem], moves: RuleRanking, items: list[Item]) -> RuleReport:
    """Add to each item the rules that moved it; return removed items and conflicts."""
    for item, move in zip(ranking, moves.moves, strict=True):
        item.rank_by_score, item.rules = move.rank_by_score, move.rules
    return RuleReport(
        [RemovedItem(index, rule, items[index].id) for index, rule in moves.removed],
        [RuleConflict(conflict.rule, conflict.message) for conflict in moves.conflicts],
    )


def _cell_text(term: Contribution) -> str | UnsetType:
    """Describe the cell of a table, and in a pair also the other row's cell."""
    if term.where is None:
        return UNSET
    if term.other_where is None:
        return term.where
    return f"{term.where}; not {term.other_where}"


def _terms(explanation: Explanation, n_terms: int) -> Terms:
    """Return the largest contributions, and the sum of the others."""
    largest = explanation.contributions[:n_terms]
    omitted = explanation.contributions[n_terms:]
    return Terms(
        explanation.total,
        [
            Term(
                term.name,
                term.weight,
                term.value,
                term.contribution,
                UNSET if term.other is None else term.other,
                _cell_text(term),
            )
            for term in largest
        ],
        math.fsum(term.contribution for term in omitted),
        len(omitted),
    )
