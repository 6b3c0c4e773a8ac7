"""Every limit of the server, with its default."""

from __future__ import annotations

from typing import Annotated

import msgspec

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]
_Count = Annotated[int, msgspec.Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client may take; all on by default.

    Attributes
    ----------
    header_seconds
        From the first byte of a request to the end of its header.
    request_seconds
        From the first byte of a request to the end of its body.
    idle_seconds
        A connection without any bytes, before the first request or between two.
    send_seconds
        A reply that the client does not read.
    drain_seconds
        After SIGTERM: the time for requests under way.
    header_bytes, header_fields
        Size of a request's header and number of its fields.
    body_bytes
        Size of a request's body.
    buffered_bytes
        Bodies of all connections together.
    connections, connections_per_address
        Open connections, in all and from one address.
    queue
        Large requests that wait for their turn; more are answered 503 with Retry-After.
    inline_bytes
        Larger requests, and those with explanations, are worked on in a thread, so that they
        hold up nobody.
    lists, items, features
        Lists in a request, items in a list, features of an item.
    explained
        Items that one request may have explained.
    """

    header_seconds: _Seconds = 5.0
    request_seconds: _Seconds = 10.0
    idle_seconds: _Seconds = 15.0
    send_seconds: _Seconds = 10.0
    drain_seconds: _Seconds = 10.0
    header_bytes: _Count = 16 * 1024
    header_fields: _Count = 64
    body_bytes: _Count = 1024 * 1024
    buffered_bytes: _Count = 64 * 1024 * 1024
    connections: _Count = 1024
    connections_per_address: _Count = 512
    queue: _Count = 128
    inline_bytes: _Count = 64 * 1024
    lists: _Count = 256
    items: _Count = 10_000
    features: _Count = 10_000
    explained: _Count = 200
