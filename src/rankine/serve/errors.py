"""Error replies: one shape for all of them, no path and no stack trace in any."""

from __future__ import annotations

import msgspec

from rankine.core.errors import RankineError

__all__ = ["Refusal", "encode_error"]


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong, and how to mend it."""

    code: str
    message: str
    fix: str = ""


class ErrorReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error reply; it names the model and its digest once they are known."""

    error: ErrorBody
    model: str | None = None
    digest: str | None = None


class Refusal(Exception):  # noqa: N818 - a reply, not a fault
    """A request that is answered with an error."""

    def __init__(self, status: int, code: str, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.fix = fix

    @classmethod
    def of(cls, error: RankineError) -> Refusal:
        """A typed error as a reply; file names stay on the server."""
        return cls(422, error.code, error.reason, error.fix)


def encode_error(
    code: str, message: str, fix: str = "", model: str | None = None, digest: str | None = None
) -> bytes:
    """The JSON of an error reply."""
    return msgspec.json.encode(ErrorReply(ErrorBody(code, message, fix), model, digest))
