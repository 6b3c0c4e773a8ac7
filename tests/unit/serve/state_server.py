"""A service with a state of history features, without sockets, and events for it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from rankine.serve.app import Service
from rankine.serve.connection import ConnectionPool, Request
from rankine.serve.history import HistoryService, StateSettings
from rankine.serve.limits import Limits
from rankine.serve.metrics import Metrics
from rankine.serve.registry import Registry
from rankine.serve.reload import Reloader
from rankine.serve.security import AccessPolicy

JSON = {b"host": b"localhost", b"content-type": b"application/json"}


SMALL = {
    "ctr": {"rate": "clicked", "by": "item", "prior": 0},
    "clicks": {"count": "clicked", "by": ["user", "item"]},
}


class StateServer:
    """A service with a state, in this thread."""

    def __init__(self, models, folder, *, strict=False, access=None, limits=None, **settings):
        self.history = HistoryService(StateSettings(folder, **settings), Metrics())
        self.metrics = self.history.metrics
        self.reloader = Reloader(models, Registry(), self.metrics, self.history)
        self.reloader.refresh()
        self.thread = ThreadPoolExecutor(1)
        self.pool = ConnectionPool(Limits(**(limits or {})), self.metrics, None, self.thread)
        self.service = Service(
            self.reloader.registry,
            self.pool,
            access or AccessPolicy("127.0.0.1"),
            strict=strict,
            history=self.history,
        )

    def ask(self, method, path, body=None, on_event_loop=False, **fields):
        more = {name.encode(): value for name, value in fields.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(method, path.encode(), {**JSON, **more}, data, close=False)
        reply = self.service.handle(request, on_event_loop)
        return reply.status, json.loads(reply.body)

    def post(self, *events):
        return self.ask(b"POST", "/v1/events", list(events))

    def score(self, **request):
        status, reply = self.ask(b"POST", "/v1/score", request)
        assert status == 200, reply
        return reply["scores"]

    def drain(self):
        self.thread.submit(lambda: None).result()

    def close(self):
        self.thread.shutdown()
        self.history.close()

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(f"rankine_{name}", labels)


def shown(name, time, *items, **more):
    rows = [{"id": item, "raw": {"item": item}} for item in items]
    event = {"type": "shown", "id": f"s{name}", "list": name, "time": time, "items": rows}
    return event | {"context": {"user": 1}} | more


def outcome(name, item, time, number=0, **outcomes):
    return {
        "type": "outcome", "id": f"o{name}/{item}/{number}", "list": name, "item": item,
        "time": time, "outcomes": outcomes,
    }  # fmt: skip


def item_rows(*items):
    return [{"id": item, "raw": {"item": item, "price": None}} for item in items]
