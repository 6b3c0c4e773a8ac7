"""Bodies to reply bytes: what happens between the HTTP layer and the scorer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from rankine.core.errors import RankineError
from rankine.serve import answers
from rankine.serve.errors import Refusal, encode_error
from rankine.serve.reading import read_rank, read_score

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankine.serve.limits import Limits
    from rankine.serve.reading import Reading
    from rankine.serve.registry import Registry, Target
    from rankine.serve.wire import RankReply, ScoreReply

__all__ = ["Answer", "Worker", "refusal_answer"]

_encode = msgspec.json.Encoder().encode


class Answer(NamedTuple):
    """A reply, ready to be sent, and what to count."""

    status: int
    body: bytes
    items: int = 0
    unknown_features: int = 0


class Worker:
    """Answers scoring requests.

    ``hurried`` is set on the event loop: what may take long then returns None, and is asked again
    in the thread. That thread alone runs requests that count unknown features, so that each count
    belongs to one request.
    """

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self.registry = registry
        self.limits = limits

    def rank(self, body: bytes, hurried: bool) -> Answer | None:
        """Answer ``POST /v1/rank``."""
        reading = read_rank(body, self.limits)
        request = reading.request
        slow = answers.explain_terms(request) is not None or request.unknown == "zero"
        if hurried and slow:
            return None
        return self._answer(reading, lambda target: answers.rank(reading, target, self.limits))

    def score(self, body: bytes, hurried: bool) -> Answer | None:
        """Answer ``POST /v1/score``."""
        reading = read_score(body, self.limits)
        if hurried and reading.request.unknown == "zero":
            return None
        return self._answer(reading, lambda target: answers.score(reading, target))

    def _answer(
        self, reading: Reading[Any], work: Callable[[Target], RankReply | ScoreReply]
    ) -> Answer:
        name = reading.request.model
        target = self.registry.target(None if name is UNSET else name)
        try:
            reply = work(target)
        except RankineError as error:
            return refusal_answer(Refusal.of(error), target)
        except Refusal as refusal:
            return refusal_answer(refusal, target)
        items = sum(len(one.items) for one in reading.lists)
        return Answer(200, _encode(reply), items, reply.unknown_features)


def refusal_answer(refusal: Refusal, target: Target | None = None) -> Answer:
    """An error reply; it names the model once one is known."""
    name, digest = (None, None) if target is None else (target.name, target.digest)
    body = encode_error(refusal.code, refusal.message, refusal.fix, name, digest)
    return Answer(refusal.status, body)
