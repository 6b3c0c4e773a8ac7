"""JSON schemas of requests, replies and errors.

msgspec refuses unknown fields, fields of a wrong type, NaN and numbers too large for float64
while it decodes. The types limit the depth of nesting. Optional fields are ``UNSET`` and not None,
so that the fields that are present can be counted (see ``handlers``). Errors contain no path and
no stack trace.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

#: Value of a column of a log.
Raw = str | int | float | bool | None


class Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Candidate in exactly one of three forms: features, indices and values, or raw.

    Attributes
    ----------
    id
        Returned in the reply.
    features
        Named features. Absent ones are 0; null is a missing value if the model has a rule for it.
    indices, values
        Strictly increasing feature numbers as in text files (from the ``base`` of the model), and
        their values.
    raw
        Columns of the log, before the model's transforms.
    """

    id: str | int | UnsetType = UNSET
    features: dict[str, float | None] | UnsetType = UNSET
    indices: list[int] | UnsetType = UNSET
    values: list[float] | UnsetType = UNSET
    raw: dict[str, Raw] | UnsetType = UNSET


class ListRequest(msgspec.Struct, forbid_unknown_fields=True):
    """List of candidates; ``context`` contains raw columns that all its items share."""

    items: list[Item]
    id: str | int | UnsetType = UNSET
    context: dict[str, Raw] | UnsetType = UNSET


class ScoreRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Request for the scores of ``items`` (one list) or ``lists`` (a batch).

    Attributes
    ----------
    model
        Name of a model, or ``bundle/topic``. Optional if only one model is served.
    unknown
        Treatment of features that the model does not have: refuse the request ("error", the
        default), or count them and use zero ("zero"). Unknown columns of raw items are counted
        unless this is "error" or the server is strict.
    """

    model: Annotated[str, Meta(max_length=512)] | UnsetType = UNSET
    items: list[Item] | UnsetType = UNSET
    context: dict[str, Raw] | UnsetType = UNSET
    lists: list[ListRequest] | UnsetType = UNSET
    unknown: Literal["error", "zero"] | UnsetType = UNSET


class RankRequest(ScoreRequest, forbid_unknown_fields=True):
    """Request for a ranking.

    Attributes
    ----------
    k
        Return only the best k items of each list.
    explain
        Explain the position of each item by its 10 largest contributions (true) or by this many.
    """

    k: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    explain: bool | Annotated[int, Meta(ge=0, le=1000)] | UnsetType = UNSET


class Term(msgspec.Struct, frozen=True, gc=False):
    """Contribution: weight times value, or weight times the difference of two values.

    For a table it is an entry, or the difference of two entries; ``where`` names the cell, and
    ``value`` is the name of a category; it is null in the table of a pair and for a missing value.
    """

    name: str
    weight: float
    value: float | str | None
    contribution: float
    other: float | str | UnsetType = UNSET
    where: str | UnsetType = UNSET


class Terms(msgspec.Struct, frozen=True, gc=False):
    """Contributions, largest first; ``rest`` is the sum of the ``rest_count`` smaller ones."""

    total: float
    contributions: list[Term]
    rest: float
    rest_count: int


class RankedItem(msgspec.Struct, gc=False):
    """Item of a ranking.

    Attributes
    ----------
    index
        Position of the item in the request, from 0.
    explanation
        Contributions to its score.
    lead
        Contributions to the difference between its score and the score of the next item.
    """

    index: int
    score: float
    id: str | int | UnsetType = UNSET
    explanation: Terms | UnsetType = UNSET
    lead: Terms | UnsetType = UNSET


class RankedList(msgspec.Struct):
    """Ranking of one list of a batch."""

    ranking: list[RankedItem]
    id: str | int | UnsetType = UNSET


class ListScores(msgspec.Struct):
    """Scores of one list of a batch, in the order of its items."""

    scores: list[float]
    id: str | int | UnsetType = UNSET


class _Reply(msgspec.Struct, kw_only=True):
    """Fields of every reply.

    Attributes
    ----------
    digest
        Digest of the model.
    unknown_features
        Number of named features that the model does not have, used as zero.
    unknown_columns
        Raw columns that the model does not have, with the number of items that contain them.
    missing_columns
        Raw columns that the model reads, with the number of items without them.
    """

    model: str
    digest: str
    unknown_features: int
    unknown_columns: dict[str, int]
    missing_columns: dict[str, int]


class RankReply(_Reply, kw_only=True):
    """Rankings, best first."""

    ranking: list[RankedItem] | UnsetType = UNSET
    lists: list[RankedList] | UnsetType = UNSET


class ScoreReply(_Reply, kw_only=True):
    """Scores in the order of the items."""

    scores: list[float] | UnsetType = UNSET
    lists: list[ListScores] | UnsetType = UNSET


class ModelEntry(msgspec.Struct, frozen=True):
    """Served model, or a file that could not be loaded.

    Attributes
    ----------
    kind
        ``linear``, ``bundle``, or ``none`` if nothing could be loaded under this name.
    required
        Columns that the model reads; no others need to be sent.
    required_count, topics_count
        Number of all names; the lists ``required`` and ``topics`` stop after 10,000.
    reads
        Form of items that the model reads: ``features`` or ``raw``.
    example
        Items that the model can rank.
    error
        Why the newest file of this name is not served. An older one may still be.
    """

    name: str
    kind: str
    digest: str | None = None
    n_features: int = 0
    nnz: int = 0
    base: int = 1
    metric: str | None = None
    transforms: list[str] = []
    probes: int = 0
    loaded_at: float = 0.0
    required_count: int = 0
    required: list[str] = []
    topics_count: int = 0
    topics: list[str] = []
    reads: str = "features"
    example: list[dict[str, Any]] = []
    error: str | None = None


class ModelsReply(msgspec.Struct, frozen=True):
    """All models, and the name that is used for requests without one."""

    models: list[ModelEntry]
    default: str | None = None


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """Code and message of an error, and how to fix it."""

    code: str
    message: str
    fix: str = ""


class ErrorReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Error reply, with the model and its digest if the request reached a model."""

    error: ErrorBody
    model: str | None = None
    digest: str | None = None


class RequestError(Exception):
    """A request whose reply is an error."""

    def __init__(self, status: int, code: str, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.fix = fix


def encode_error(
    code: str, message: str, fix: str = "", model: str | None = None, digest: str | None = None
) -> bytes:
    """Encode an error reply as JSON."""
    return msgspec.json.encode(ErrorReply(ErrorBody(code, message, fix), model, digest))
