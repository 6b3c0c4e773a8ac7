"""Bodies to requests: strict JSON, no key twice, nothing above its limit."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET

from rankine.kernels.compile import jit
from rankine.serve.errors import Refusal
from rankine.serve.limits import Limits
from rankine.serve.wire import Item, ListRequest, RankRequest, ScoreRequest

__all__ = ["read_rank", "read_score", "structural_colons"]

R = TypeVar("R", bound=ScoreRequest)

_RANK = msgspec.json.Decoder(RankRequest, strict=True)
_SCORE = msgspec.json.Decoder(ScoreRequest, strict=True)


def read_rank(body: bytes, limits: Limits) -> RankRequest:
    """A body of ``POST /v1/rank``."""
    return _read(_RANK, body, limits)


def read_score(body: bytes, limits: Limits) -> ScoreRequest:
    """A body of ``POST /v1/score``."""
    return _read(_SCORE, body, limits)


def _read(decoder: msgspec.json.Decoder[R], body: bytes, limits: Limits) -> R:
    try:
        request = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refusal(422, "schema", str(error), "See /openapi.json") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "json", f"the body is not JSON: {error}") from error
    if (request.items is UNSET) == (request.lists is UNSET):
        raise Refusal(422, "schema", "pass either items (one list) or lists (a batch)")
    if request.lists is not UNSET and request.context is not UNSET:
        raise Refusal(422, "schema", "context beside lists", "Put it into each list")
    pairs = _count(request, limits)
    # Every pair has one colon outside strings. Fewer pairs than colons: colons within strings,
    # which only an exact count can tell from a key that stands twice.
    if body.count(b":") != pairs and structural_colons(body) != pairs:
        raise Refusal(400, "json", "a key stands twice in one object of the body")
    return request


def _count(request: ScoreRequest, limits: Limits) -> int:
    """Key-value pairs in a decoded request; limits on lists, items and features on the way."""
    pairs = sum(getattr(request, name) is not UNSET for name in request.__struct_fields__)
    lists: list[ListRequest] = []
    if request.lists is not UNSET:
        lists = request.lists
        pairs += sum(1 + (one.id is not UNSET) + (one.context is not UNSET) for one in lists)
        if len(lists) > limits.lists:
            raise Refusal(422, "limit", f"more than {limits.lists} lists in one request")
    elif request.items is not UNSET:
        lists = [ListRequest(request.items, context=request.context)]
    for one in lists:
        if len(one.items) > limits.items:
            raise Refusal(422, "limit", f"more than {limits.items} items in one list")
        if one.context is not UNSET:
            pairs += len(one.context)
        for item in one.items:
            pairs += _count_item(item, limits.features)
    return pairs


def _count_item(item: Item, most: int) -> int:
    pairs = 0 if item.id is UNSET else 1
    size = 0
    if item.features is not UNSET:
        size = len(item.features)
        pairs += 1 + size
    if item.raw is not UNSET:
        size = len(item.raw)
        pairs += 1 + size
    if item.indices is not UNSET:
        size = len(item.indices)
        pairs += 1
    if item.values is not UNSET:
        pairs += 1
    if size > most:
        raise Refusal(422, "limit", f"more than {most} features in one item")
    return pairs


def structural_colons(body: bytes) -> int:
    """Colons outside strings in valid JSON: one for every key-value pair.

    Examples
    --------
    >>> structural_colons(b'{"a:b": "c:", "d": {}}')
    2
    """
    return int(_colons(np.frombuffer(body, dtype=np.uint8)))


@jit
def _colons(text: Any) -> int:
    count = 0
    inside = False
    escaped = False
    for byte in text:
        if inside:
            if escaped:
                escaped = False
            elif byte == 0x5C:  # backslash
                escaped = True
            elif byte == 0x22:  # quote
                inside = False
        elif byte == 0x22:
            inside = True
        elif byte == 0x3A:  # colon
            count += 1
    return count
