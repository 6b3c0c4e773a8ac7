"""Requests, replies and errors, as they stand in JSON.

Unknown fields, fields of another type, NaN and numbers beyond float64 are refused by msgspec while
it decodes; nesting ends where these types end, so that no depth can hurt. Optional fields are
``UNSET`` and not None, so that the fields present can be counted (see ``answers``). Errors have one
shape, with no path and no stack trace in any.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

#: One column of a log.
Raw = str | int | float | bool | None


class Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One candidate, in exactly one of three forms: features, indices and values, or raw.

    Attributes
    ----------
    id
        Given back in the reply.
    features
        Named features; those left out are 0, null is a missing value where the model has a rule.
    indices, values
        Feature numbers as in the model's text files (counting from the model's ``base``), strictly
        increasing, and their values.
    raw
        Columns of the log, before the model's transforms.
    """

    id: str | int | UnsetType = UNSET
    features: dict[str, float | None] | UnsetType = UNSET
    indices: list[int] | UnsetType = UNSET
    values: list[float] | UnsetType = UNSET
    raw: dict[str, Raw] | UnsetType = UNSET


class ListRequest(msgspec.Struct, forbid_unknown_fields=True):
    """One list of candidates; ``context`` holds raw columns that all its items share."""

    items: list[Item]
    id: str | int | UnsetType = UNSET
    context: dict[str, Raw] | UnsetType = UNSET


class ScoreRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Scores wanted, for ``items`` (one list) or ``lists`` (a batch).

    Attributes
    ----------
    model
        Name of a model, or ``bundle/topic``; may be left out where only one model is served.
    unknown
        What to do with a feature that the model does not know: refuse the request ("error", the
        default), or count it and take it as zero. Unknown columns of raw items are counted unless
        this is "error" or the server is strict.
    """

    model: Annotated[str, Meta(max_length=512)] | UnsetType = UNSET
    items: list[Item] | UnsetType = UNSET
    context: dict[str, Raw] | UnsetType = UNSET
    lists: list[ListRequest] | UnsetType = UNSET
    unknown: Literal["error", "zero"] | UnsetType = UNSET


class RankRequest(ScoreRequest, forbid_unknown_fields=True):
    """A ranking wanted.

    Attributes
    ----------
    k
        Only the best k items of each list.
    explain
        Say why each item stands where it stands: true (the 10 largest contributions) or how many.
    """

    k: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    explain: bool | Annotated[int, Meta(ge=0, le=1000)] | UnsetType = UNSET


class Term(msgspec.Struct, frozen=True, gc=False):
    """One contribution: weight times value, or weight times the difference of two values.

    Of a table it is an entry, or the difference of two; ``where`` says which cell it stands in, and
    ``value`` is null in the table of a pair and for a missing value.
    """

    name: str
    weight: float
    value: float | None
    contribution: float
    other: float | UnsetType = UNSET
    where: str | UnsetType = UNSET


class Terms(msgspec.Struct, frozen=True, gc=False):
    """Contributions, largest first; ``rest`` is the sum of the ``rest_count`` left out."""

    total: float
    contributions: list[Term]
    rest: float
    rest_count: int


class RankedItem(msgspec.Struct, gc=False):
    """One item of a ranking.

    Attributes
    ----------
    index
        Place of the item in the request, from 0.
    explanation
        Contributions to its score.
    lead
        Contributions to its distance from the next item of the ranking.
    """

    index: int
    score: float
    id: str | int | UnsetType = UNSET
    explanation: Terms | UnsetType = UNSET
    lead: Terms | UnsetType = UNSET


class RankedList(msgspec.Struct):
    """The ranking of one list of a batch."""

    ranking: list[RankedItem]
    id: str | int | UnsetType = UNSET


class ListScores(msgspec.Struct):
    """The scores of one list of a batch, in the order of its items."""

    scores: list[float]
    id: str | int | UnsetType = UNSET


class _Reply(msgspec.Struct, kw_only=True):
    """What every reply says.

    Attributes
    ----------
    digest
        Of the model that made the reply.
    unknown_features
        Named features that the model does not know, taken as zero.
    unknown_columns
        Raw columns that the model does not know, with the number of items that hold them.
    missing_columns
        Raw columns that the model reads, with the number of items without them.
    """

    model: str
    digest: str
    unknown_features: int
    unknown_columns: dict[str, int]
    missing_columns: dict[str, int]


class RankReply(_Reply, kw_only=True):
    """Rankings, best first, and the digest of the model that made them."""

    ranking: list[RankedItem] | UnsetType = UNSET
    lists: list[RankedList] | UnsetType = UNSET


class ScoreReply(_Reply, kw_only=True):
    """Scores in the order of the items, and the digest of the model that made them."""

    scores: list[float] | UnsetType = UNSET
    lists: list[ListScores] | UnsetType = UNSET


class ModelEntry(msgspec.Struct, frozen=True):
    """A model that is served, or a file that could not be.

    Attributes
    ----------
    kind
        ``linear``, ``bundle``, or ``none`` where nothing could be loaded under this name.
    required
        Columns the model reads: no others need to be fetched.
    required_count, topics_count
        How many there are; lists beyond 10,000 are cut.
    reads
        ``features`` or ``raw``: the form of item that the model takes.
    example
        Items that the model can rank.
    error
        Why the newest file under this name is not served; the model above it still is.
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
    """All models, and the name that requests without one go to."""

    models: list[ModelEntry]
    default: str | None = None


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


class RequestError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, code: str, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.fix = fix


def encode_error(
    code: str, message: str, fix: str = "", model: str | None = None, digest: str | None = None
) -> bytes:
    """The JSON of an error reply."""
    return msgspec.json.encode(ErrorReply(ErrorBody(code, message, fix), model, digest))
