"""Bodies to requests: strict JSON, no key twice, nothing above its limit."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from rankine.kernels.compile import jit
from rankine.scoring import NamedTable
from rankine.serve.errors import Refusal
from rankine.serve.limits import Limits
from rankine.serve.uniform import uniform_table
from rankine.serve.wire import Item, ListRequest, RankRequest, Raw, ScoreRequest

__all__ = ["ReadList", "Reading", "read_rank", "read_score", "structural_colons"]

R = TypeVar("R", bound=ScoreRequest)

_RANK = msgspec.json.Decoder(RankRequest, strict=True)
_SCORE = msgspec.json.Decoder(ScoreRequest, strict=True)
_COLON = ord(":")
_FEATURES = msgspec.json.Decoder(dict[str, float], strict=True)


class ReadList(NamedTuple):
    """One list: its items, and the named features of all of them where they have any."""

    items: list[Item]
    id: str | int | UnsetType
    context: dict[str, Raw] | UnsetType
    features: NamedTable | list[dict[str, float]] | None


class Reading(NamedTuple, Generic[R]):
    """A request and its lists."""

    request: R
    lists: list[ReadList]


def read_rank(body: bytes, limits: Limits) -> Reading[RankRequest]:
    """A body of ``POST /v1/rank``."""
    return _read(_RANK, body, limits)


def read_score(body: bytes, limits: Limits) -> Reading[ScoreRequest]:
    """A body of ``POST /v1/score``."""
    return _read(_SCORE, body, limits)


def _read(decoder: msgspec.json.Decoder[R], body: bytes, limits: Limits) -> Reading[R]:
    try:
        request = decoder.decode(body)
        lists = [_read_list(one, limits) for one in _lists(request, limits)]
    except msgspec.ValidationError as error:
        raise Refusal(422, "schema", str(error), "See /openapi.json") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "json", f"the body is not JSON: {error}") from error
    # Every pair has one colon outside strings. Fewer pairs than colons: colons within strings,
    # which only an exact count can tell from a key that stands twice.
    pairs = _fields(request) + sum(map(_pairs, lists))
    if request.lists is not UNSET:
        pairs += sum(map(_fields, request.lists))
    bytes_ = np.frombuffer(body, dtype=np.uint8)
    if np.count_nonzero(bytes_ == _COLON) != pairs and structural_colons(body) != pairs:
        raise Refusal(400, "json", "a key stands twice in one object of the body")
    return Reading(request, lists)


def _lists(request: ScoreRequest, limits: Limits) -> list[ListRequest]:
    if request.items is not UNSET and request.lists is UNSET:
        return [ListRequest(request.items, context=request.context)]
    if request.items is not UNSET or request.lists is UNSET:
        raise Refusal(422, "schema", "pass either items (one list) or lists (a batch)")
    if request.context is not UNSET:
        raise Refusal(422, "schema", "context beside lists", "Put it into each list")
    if len(request.lists) > limits.lists:
        raise Refusal(422, "limit", f"more than {limits.lists} lists in one request")
    return request.lists


def _read_list(one: ListRequest, limits: Limits) -> ReadList:
    if len(one.items) > limits.items:
        raise Refusal(422, "limit", f"more than {limits.items} items in one list")
    for item in one.items:
        _check_item(item, limits)
    objects = [item.features for item in one.items if item.features is not UNSET]
    features: NamedTable | list[dict[str, float]] | None = None
    if objects:
        features = uniform_table(objects, limits.features)
    if objects and features is None:
        features = [_FEATURES.decode(text) for text in objects]
        if max(map(len, features)) > limits.features:
            raise _too_wide(limits)
    return ReadList(one.items, one.id, one.context, features)


def _check_item(item: Item, limits: Limits) -> None:
    """Exactly one form, of no more features than allowed."""
    if item.features is not UNSET:
        fits = item.raw is UNSET and item.indices is UNSET and item.values is UNSET
    elif item.raw is not UNSET:
        fits = item.indices is UNSET and item.values is UNSET
        if len(item.raw) > limits.features:
            raise _too_wide(limits)
    else:
        fits = item.indices is not UNSET and item.values is not UNSET
        if item.indices is not UNSET and len(item.indices) > limits.features:
            raise _too_wide(limits)
    if not fits:
        raise Refusal(422, "schema", "an item has features, or indices and values, or raw columns")


def _fields(part: msgspec.Struct) -> int:
    """Fields that were present in the JSON of a struct."""
    return sum(getattr(part, name) is not UNSET for name in part.__struct_fields__)


def _pairs(one: ReadList) -> int:
    """Key-value pairs in a list's items and context."""
    pairs = 0 if one.context is UNSET else len(one.context)
    if isinstance(one.features, NamedTable):
        pairs += one.features.values.size
    elif one.features is not None:
        pairs += sum(map(len, one.features))
    for item in one.items:
        pairs += (item.id is not UNSET) + (item.features is not UNSET)
        if item.features is UNSET:
            pairs += (item.indices is not UNSET) + (item.values is not UNSET)
            pairs += 0 if item.raw is UNSET else 1 + len(item.raw)
    return pairs


def _too_wide(limits: Limits) -> Refusal:
    return Refusal(422, "limit", f"more than {limits.features} features in one item")


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
