"""Handle ``POST /v1/events``: decode and check events, and pass them to the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from rankine.core.errors import RankineError
from rankine.core.safe_text import printable
from rankine.core.specs import History
from rankine.history.live import Outcome, Shown
from rankine.serve.handlers import (
    ScoringResult,
    check_repeated_keys,
    count_fields,
    decode_json,
    read_time,
    require_complete,
)
from rankine.serve.history import HistoryService
from rankine.serve.limits import Limits
from rankine.serve.schemas import EventsReply, OutcomeEvent, RequestError, ShownEvent

_Event = ShownEvent | OutcomeEvent
_EVENTS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Event | list[_Event], strict=True)


class EventsHandler:
    """Handles requests with events.

    Parameters
    ----------
    strict
        Whether outcomes with columns that no feature reads are refused. Otherwise these are
        counted in the reply.
    """

    def __init__(self, service: HistoryService, limits: Limits, *, strict: bool = False) -> None:
        self.service = service
        self.limits = limits
        self.strict = strict

    def post(self, body: bytes) -> ScoringResult:
        """Handle one event, or a list of them."""
        live = self.service.require_live()
        require_complete(live)
        events = decode_json(_EVENTS, body)
        if not isinstance(events, list):
            events = [events]
        check_repeated_keys(body, sum(_count_pairs(event) for event in events))
        checked = []
        events_by_id: dict[str, _Event] = {}
        for number, event in enumerate(events):
            try:
                # 1 and "1" are one id. An event that is sent twice is equal to its first copy.
                if events_by_id.setdefault(str(event.id), event) != event:
                    raise RequestError(
                        422,
                        "schema",
                        f"the id {printable(repr(event.id), 60)} is that of another event",
                        "Give every event its own id",
                    )
                checked.append(self._convert(event, live.history))
            except (RankineError, RequestError) as error:
                raise _locate(error, number, len(events)) from error
        try:
            receipt = self.service.submit(checked)
        except RankineError as error:
            raise _locate(error, None, len(events)) from error
        reply = EventsReply(
            receipt.accepted,
            receipt.duplicates,
            receipt.unmatched,
            receipt.late,
            dict(receipt.unknown_columns),
        )
        return ScoringResult(202, msgspec.json.encode(reply))

    def _convert(self, event: _Event, history: History) -> Shown | Outcome:
        time = read_time(event.time, history, self.limits)
        if isinstance(event, ShownEvent):
            if len(event.items) > self.limits.items:
                raise RequestError(422, "limit", f"more than {self.limits.items} items in one list")
            context = {} if event.context is UNSET else event.context
            rows: list[Mapping[str, Any]] = [
                context if item.raw is UNSET else {**context, **item.raw} for item in event.items
            ]
            return Shown(event.id, event.list_id, time, [item.id for item in event.items], rows)
        if self.strict:
            self._check_columns(event.outcomes)
        return Outcome(event.id, event.list_id, time, event.item, event.outcomes)

    def _check_columns(self, outcomes: Mapping[str, Any]) -> None:
        columns = self.service.require_live().state.reader.amount_columns
        unknown = [name for name in outcomes if name not in columns]
        if unknown:
            raise RequestError(
                422,
                "feature-mismatch",
                f"no history feature reads {printable(unknown[0])!r}",
                f"They read {', '.join(columns)}",
            )


def _count_pairs(event: _Event) -> int:
    """Count the pairs of keys and values in the JSON of an event; its type is one."""
    n_pairs = 1 + count_fields(event)
    if isinstance(event, OutcomeEvent):
        return n_pairs + len(event.outcomes)
    if event.context is not UNSET:
        n_pairs += len(event.context)
    for item in event.items:
        n_pairs += 1
        if item.raw is not UNSET:
            n_pairs += 1 + len(item.raw)
    return n_pairs


def _locate(error: RankineError | RequestError, number: int | None, n_events: int) -> RequestError:
    """Return the reply for an invalid event."""
    if isinstance(error, RequestError):
        status, code, message = error.status, error.code, error.message
    else:
        status, code, message = 422, error.code, error.reason
    if number is not None and n_events > 1:
        message = f"event {number}: {message}"
    return RequestError(status, code, message, error.fix or "")
