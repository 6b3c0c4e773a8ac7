"""Route requests: access rules, scoring, models, probes, the page and the OpenAPI document."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

import msgspec

from rankine import __version__
from rankine.export import ExportOptions
from rankine.export.javascript import scorer_source
from rankine.export.json import build_document
from rankine.history.live import Shown
from rankine.reranking.schema import RuleSet
from rankine.serve.connection import ConnectionPool, Lane, Reply, Request
from rankine.serve.events import EventsHandler
from rankine.serve.handlers import ScoringHandler, ScoringResult, error_result
from rankine.serve.history import HistoryService, no_state
from rankine.serve.metrics import CONTENT_TYPE
from rankine.serve.registry import Registry
from rankine.serve.schemas import (
    ErrorReply,
    EventsReply,
    ModelEntry,
    ModelsReply,
    OutcomeEvent,
    RankReply,
    RankRequest,
    RequestError,
    ScoreReply,
    ScoreRequest,
    ShownEvent,
    StateReply,
    encode_error,
)
from rankine.serve.security import EVENTS_PATH, AccessPolicy

_ASK_FOR_TOKEN = ((b"www-authenticate", b"Bearer"),)
_CHARSETS = (b"", b"charset=utf-8", b'charset="utf-8"')


class Service:
    """Routes requests to their handlers.

    Parameters
    ----------
    strict
        Whether raw items with unknown or missing columns are refused.
    history
        State of history features, if there is one.
    """

    def __init__(
        self,
        registry: Registry,
        pool: ConnectionPool,
        access: AccessPolicy,
        *,
        strict: bool = False,
        history: HistoryService | None = None,
    ) -> None:
        self.registry = registry
        self.history = history
        self.pool = pool
        self.access = access
        self.metrics = pool.metrics
        self.metrics.observe_state(registry, pool)
        handler = ScoringHandler(registry, pool.limits, strict=strict, record=self._record)
        self._scoring = {"/v1/rank": handler.rank, "/v1/score": handler.score}
        self._events: EventsHandler | None = None
        if history is not None:
            self._events = EventsHandler(history, pool.limits, strict=strict)
        self._pages: dict[str, Callable[[], Reply]] = {
            "/": page_reply,
            "/healthz": lambda: _text(b"ok\n"),
            "/readyz": self._ready,
            "/metrics": lambda: Reply(200, self.metrics.text(), CONTENT_TYPE.encode()),
            "/openapi.json": lambda: Reply(200, openapi_document()),
            "/v1/models": self._models,
            "/v1/state": self._state,
        }

    def handle(self, request: Request, on_event_loop: bool) -> Reply | Lane | None:
        """Return the reply; on the event loop, None or a lane for a request that would block it."""
        raw_path = request.target.partition(b"?")[0].decode("ascii")
        path = unquote(raw_path)
        fields = request.fields
        if not self.access.host_allowed(fields.get(b"host", b"").decode("latin-1")):
            fix = "Start it with --allow-host"
            return _refused(421, "host", "the Host header does not name this server", fix)
        refusal_status = self.access.refusal_status(path, fields.get(b"authorization"))
        if refusal_status == 403:
            return _refused(403, "token", f"this token is for POST {EVENTS_PATH} only")
        if refusal_status is not None:
            return _refused(401, "token", "a bearer token is needed", fields=_ASK_FOR_TOKEN)
        is_post = path in self._scoring or path == EVENTS_PATH
        page = self._pages.get(path)
        # Unknown paths before methods: 405 would suggest that another method works.
        if not is_post and page is None and not path.startswith(("/v1/models/", _EXPORT_PATH)):
            return _refused(404, "http", "nothing is served under this path", "See /openapi.json")
        allowed: tuple[bytes, ...] = (b"GET", b"HEAD")
        if is_post:
            allowed = (b"POST",)
        if request.method not in allowed:
            return _refused(
                405,
                "http",
                "this path takes another method",
                "See /openapi.json",
                fields=((b"allow", b", ".join(allowed)),),
            )
        if path == EVENTS_PATH:
            return self.pool.events if on_event_loop else self._post_events(request)
        if is_post:
            return self._score(path, request, on_event_loop)
        if page is not None:
            return page()
        if path.startswith(_EXPORT_PATH):
            return self._export(path.removeprefix(_EXPORT_PATH))
        return self._model(path.removeprefix("/v1/models/"))

    def _score(self, path: str, request: Request, on_event_loop: bool) -> Reply | None:
        started = time.perf_counter()
        # A long body would hold up all other connections.
        if on_event_loop and len(request.body) > self.pool.limits.inline_bytes:
            return None
        try:
            check_json(request.fields)
            result = self._scoring[path](request.body, on_event_loop)
        except RequestError as error:
            result = error_result(error)
        if result is None:
            return None
        self.metrics.observe(time.perf_counter() - started, result.n_items, result.issues)
        return self._counted_reply(path, result)

    def _post_events(self, request: Request) -> Reply:
        try:
            check_json(request.fields)
            if self._events is None:
                raise no_state()
            result = self._events.post(request.body)
        except RequestError as error:
            result = error_result(error)
        return self._counted_reply(EVENTS_PATH, result)

    def _counted_reply(self, path: str, result: ScoringResult) -> Reply:
        self.metrics.count(path, result.status)
        return Reply(result.status, result.body)

    def _record(self, shown: list[Shown]) -> bool:
        """Pass ranked lists to the thread of events; return whether there was room."""
        lane = self.pool.events
        if self.history is None or lane.thread is None or not lane.enter():
            self.metrics.refuse(lane.name)
            return False
        # The reply does not wait for the log: ranking must not depend on the disk.
        future = lane.thread.submit(self.history.submit_recorded, shown)
        future.add_done_callback(lambda _: lane.leave())
        return True

    def _state(self) -> Reply:
        try:
            if self.history is None:
                raise no_state()
            result = ScoringResult(200, msgspec.json.encode(self.history.describe()))
        except RequestError as error:
            result = error_result(error)
        return self._counted_reply("/v1/state", result)

    def _models(self) -> Reply:
        entries = self.registry.entries()
        return self._models_reply(ModelsReply(entries, self.registry.current.default))

    def _model(self, name: str) -> Reply:
        name, slash, topic = name.partition("/")
        snapshot = self.registry.current
        try:
            if name not in snapshot.models:
                raise RequestError(
                    404, "no-model", "no model of this name is served", "See /v1/models"
                )
            return self._models_reply(snapshot.entry(name, topic if slash else None))
        except RequestError as error:
            return self._counted_reply("/v1/models", error_result(error))

    def _export(self, name: str) -> Reply:
        try:
            served = self.registry.find(name)
            if served.model.nnz > _MAX_EXPORTED:
                raise RequestError(
                    422,
                    "limit",
                    f"the model has {served.model.nnz:,} weights, and {_MAX_EXPORTED:,} are sent",
                    "Use rankine export",
                )
            document = build_document(served.model, ExportOptions())
            # The digest of replies: for a topic, that of its bundle.
            document |= {"digest": served.digest, "required": list(served.required)}
            result = ScoringResult(200, msgspec.json.encode(document))
        except RequestError as error:
            result = error_result(error)
        return self._counted_reply("/v1/export", result)

    def _models_reply(self, reply: ModelsReply | ModelEntry) -> Reply:
        self.metrics.count("/v1/models", 200)
        return Reply(200, msgspec.json.encode(reply))

    def _ready(self) -> Reply:
        """Return 200 if models are loaded and the server is not stopping, else 503."""
        if self.pool.stopping:
            return _text(b"stopping\n", 503)
        if not self.registry.current.models:
            return _text(b"no model\n", 503)
        return _text(b"ready\n")


def _refused(
    status: int,
    code: str,
    message: str,
    fix: str = "",
    fields: tuple[tuple[bytes, bytes], ...] = (),
) -> Reply:
    return Reply(status, encode_error(code, message, fix), fields=fields)


def _text(body: bytes, status: int = 200) -> Reply:
    return Reply(status, body, b"text/plain; charset=utf-8")


def check_json(fields: dict[bytes, bytes]) -> None:
    """Raise an error unless the body is uncompressed JSON.

    Browsers send forms and plain text from any page without a preflight request, so a server that
    accepted them could be used by foreign pages.
    """
    if fields.get(b"content-encoding", b"identity").lower() != b"identity":
        raise RequestError(415, "content-encoding", "compressed bodies are not accepted")
    media_type, _, parameters = fields.get(b"content-type", b"").lower().partition(b";")
    if media_type.strip() != b"application/json" or parameters.strip() not in _CHARSETS:
        raise RequestError(415, "content-type", "the body must be application/json in UTF-8")


#: Paths of models in the JSON format of ``rankine export``, which the page scores rows with.
_EXPORT_PATH = "/v1/export/"
#: Largest number of weights that are sent, because encoding them blocks other requests.
_MAX_EXPORTED = 20_000


# -- the page at ``/``: one file that loads nothing ----------------------------------------------

_BLOCKS = {tag: re.compile(rf"<{tag}>(.*?)</{tag}>", re.DOTALL) for tag in ("style", "script")}


def policy(text: str) -> str:
    """Return a content security policy that allows only the style and script of this page."""
    sources = []
    for tag, pattern in _BLOCKS.items():
        # Hashes of the page's own parts: an injected script would not run.
        hashes = [
            base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
            for block in pattern.findall(text)
        ]
        sources.append(f"{tag}-src " + " ".join(f"'sha256-{value}'" for value in hashes))
    return "; ".join(
        (
            "default-src 'none'",
            *sources,
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


@cache
def page_reply() -> Reply:
    """Return the page with its policy."""
    text = files("rankine.serve").joinpath("page.html").read_text(encoding="utf-8")
    text = text.replace("/* @SCORER@ */", scorer_source())
    rules = policy(text).encode("ascii")
    fields = ((b"content-security-policy", rules), (b"referrer-policy", b"no-referrer"))
    return Reply(200, text.encode(), b"text/html; charset=utf-8", fields)


# -- the OpenAPI document, made from the structs of requests and replies -------------------------

_EVENT = ShownEvent | OutcomeEvent
_STRUCTS = (
    RankRequest,
    RankReply,
    ScoreRequest,
    ScoreReply,
    EventsReply,
    StateReply,
    ModelsReply,
    ModelEntry,
    ErrorReply,
    RuleSet,
    _EVENT | list[_EVENT],
)
_ERRORS = {
    "400": "The body is not JSON, or a key is repeated in an object.",
    "401": "A bearer token is needed.",
    "403": "The token is for events only.",
    "404": "No such model.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "The JSON has another shape, names unknown features, or exceeds a limit.",
    "503": "The queue is full; see Retry-After.",
}
_EVENT_ERRORS = {
    **{status: text for status, text in _ERRORS.items() if status != "403"},
    "404": "The server has no state of history features.",
    "429": "Too many events wait; see Retry-After.",
    "503": "The log cannot be written; nothing of the request counts.",
}
_NOT_READY = {"503": "The server is starting or stopping."}


@cache
def openapi_document() -> bytes:
    """Return the OpenAPI document as JSON."""
    (*_, events), schemas = msgspec.json.schema_components(
        _STRUCTS, ref_template="#/components/schemas/{name}"
    )
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "rankine",
            "version": __version__,
            "description": "Scores, rankings and explanations of ranking models.",
        },
        "paths": {
            "/v1/rank": {"post": _scoring("rank", "Rank one list or a batch.", "Rank")},
            "/v1/score": {"post": _scoring("score", "Score one list or a batch.", "Score")},
            "/v1/events": {"post": _posting_events(events)},
            "/v1/state": {"get": _getting("state", "Size and age of the history.", "StateReply")},
            "/v1/models": {"get": _getting("models", "Models and what they read.", "ModelsReply")},
            "/v1/models/{name}": {
                "get": _getting(
                    "model", "One model, or the topics of a bundle.", "ModelEntry", "name"
                )
            },
            "/v1/models/{name}/{topic}": {
                "get": _getting("topic", "One topic.", "ModelEntry", "name", "topic")
            },
            "/v1/export/{name}": {"get": _exporting("export", "One model", "name")},
            "/v1/export/{name}/{topic}": {
                "get": _exporting("exportTopic", "One topic", "name", "topic")
            },
            "/healthz": {"get": _plain("healthz", "The process is running.")},
            "/readyz": {"get": _plain("readyz", "Models and kernels are loaded.", **_NOT_READY)},
            "/metrics": {"get": _plain("metrics", "Prometheus metrics.")},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
    return msgspec.json.encode(document)


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _operation(
    name: str,
    summary: str,
    content: Any,
    errors: dict[str, str],
    error_content: Any = None,
    success_status: str = "200",
    **fields: Any,
) -> dict[str, Any]:
    """Describe one operation: its reply, and other replies by status."""
    responses = {success_status: {"description": summary, "content": content}}
    for status, text in errors.items():
        content = error_content or _json("ErrorReply")
        responses[status] = {"description": text, "content": content}
    return {"operationId": name, "summary": summary, **fields, "responses": responses}


def _scoring(operation: str, summary: str, prefix: str) -> dict[str, Any]:
    body = {"required": True, "content": _json(f"{prefix}Request")}
    return _operation(operation, summary, _json(f"{prefix}Reply"), _ERRORS, requestBody=body)


def _posting_events(schema: Any) -> dict[str, Any]:
    summary = "Report shown lists and outcomes; they are in the log when the reply comes."
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    content = _json("EventsReply")
    return _operation(
        "events", summary, content, _EVENT_ERRORS, requestBody=body, success_status="202"
    )


def _getting(operation: str, summary: str, reply: str, *names: str) -> dict[str, Any]:
    errors = {status: _ERRORS[status] for status in ("401", "403", "404")}
    return _operation(operation, summary, _json(reply), errors, parameters=_in_path(names))


def _exporting(operation: str, what: str, *names: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}}
    errors = {status: _ERRORS[status] for status in ("401", "403", "404")}
    errors["422"] = f"The model has more than {_MAX_EXPORTED:,} weights."
    summary = f"{what} as rankine export --to json writes it."
    return _operation(operation, summary, content, errors, parameters=_in_path(names))


def _in_path(names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]


def _plain(operation: str, summary: str, **errors: str) -> dict[str, Any]:
    text = {"text/plain": {"schema": {"type": "string"}}}
    return _operation(operation, summary, text, errors, text)
