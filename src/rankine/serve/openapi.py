"""The OpenAPI document, made from the structs that requests and replies are decoded with."""

from __future__ import annotations

from typing import Any

import msgspec

from rankine import __version__
from rankine.serve.errors import ErrorReply
from rankine.serve.wire import (
    ModelEntry,
    ModelsReply,
    RankReply,
    RankRequest,
    ScoreReply,
    ScoreRequest,
)

__all__ = ["openapi_document"]

_STRUCTS = (RankRequest, RankReply, ScoreRequest, ScoreReply, ModelsReply, ModelEntry, ErrorReply)
_ERRORS = {
    "400": "The body is not JSON, or a key stands twice in an object.",
    "401": "A bearer token is needed.",
    "404": "No such model.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "JSON of another shape, features the model does not know, or a limit.",
    "503": "The queue is full; see Retry-After.",
}


def openapi_document() -> bytes:
    """The document, encoded."""
    _, schemas = msgspec.json.schema_components(
        _STRUCTS, ref_template="#/components/schemas/{name}"
    )
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "rankine",
            "version": __version__,
            "description": "Scores, rankings and their reasons from linear ranking models.",
        },
        "paths": {
            "/v1/rank": {"post": _scoring("rank", "Rank one list or a batch.", "Rank")},
            "/v1/score": {"post": _scoring("score", "Score one list or a batch.", "Score")},
            "/v1/models": {"get": _getting("models", "Models and what they read.", "ModelsReply")},
            "/v1/models/{name}": {
                "get": _getting("model", "One model, or a bundle's topics.", "ModelEntry", ["name"])
            },
            "/v1/models/{name}/{topic}": {
                "get": _getting("topic", "One topic.", "ModelEntry", ["name", "topic"])
            },
            "/healthz": {"get": _plain("healthz", "The process answers.")},
            "/readyz": {"get": _plain("readyz", "Models are loaded, kernels compiled.", "503")},
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


def _errors() -> dict[str, Any]:
    return {
        code: {"description": text, "content": _json("ErrorReply")}
        for code, text in _ERRORS.items()
    }


def _scoring(operation: str, about: str, prefix: str) -> dict[str, Any]:
    return {
        "operationId": operation,
        "summary": about,
        "requestBody": {"required": True, "content": _json(f"{prefix}Request")},
        "responses": {
            "200": {"description": about, "content": _json(f"{prefix}Reply")},
            **_errors(),
        },
    }


def _getting(
    operation: str, about: str, reply: str, parameters: list[str] | None = None
) -> dict[str, Any]:
    return {
        "operationId": operation,
        "summary": about,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in parameters or []
        ],
        "responses": {
            "200": {"description": about, "content": _json(reply)},
            "404": {"description": _ERRORS["404"], "content": _json("ErrorReply")},
        },
    }


def _plain(operation: str, about: str, other: str | None = None) -> dict[str, Any]:
    text = {"text/plain": {"schema": {"type": "string"}}}
    responses = {"200": {"description": about, "content": text}}
    if other is not None:
        responses[other] = {"description": "Not yet, or no longer.", "content": text}
    return {"operationId": operation, "summary": about, "responses": responses}
