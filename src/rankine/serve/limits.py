"""Limits of the server and their defaults."""

from __future__ import annotations

from typing import Annotated

import msgspec

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]
_Count = Annotated[int, msgspec.Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits on what clients can use; all are on by default.

    Attributes
    ----------
    header_seconds
        Seconds from the first byte of a request to the end of its header.
    request_seconds
        Seconds from the first byte of a request to the end of its body.
    idle_seconds
        Seconds until a connection is closed on which no request has begun.
    send_seconds
        Seconds for the client to read a reply.
    drain_seconds
        Seconds for unfinished requests after SIGTERM.
    header_bytes, header_fields
        Size of a request's header and number of its fields.
    body_bytes
        Size of a request's body.
    buffered_bytes
        Size of the unfinished requests of all connections together.
    connections, connections_per_address
        Number of open connections, in total and per address.
    queue
        Number of large requests that wait; further ones get a reply 503 with Retry-After.
    inline_bytes
        Requests larger than this, and those with explanations, are handled in a thread, so that
        they do not delay others.
    lists, items, features
        Number of lists in a request, items in a list, features of an item.
    explained
        Number of items that one request may have explained.
    event_queue
        Number of requests with events that wait; further ones get a reply 429 with Retry-After.
    future_seconds
        Seconds by which a time in a request may be ahead of the server's clock.
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
    event_queue: _Count = 64
    future_seconds: _Seconds = 3600.0
