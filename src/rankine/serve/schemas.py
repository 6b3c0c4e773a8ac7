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
    columns
        Further columns that only rules read; a list of numbers is a vector.
    """

    id: str | int | UnsetType = UNSET
    features: dict[str, float | None] | UnsetType = UNSET
    indices: list[int] | UnsetType = UNSET
    values: list[float] | UnsetType = UNSET
    raw: dict[str, Raw] | UnsetType = UNSET
    columns: dict[str, Raw | list[float]] | UnsetType = UNSET


class ListRequest(msgspec.Struct, forbid_unknown_fields=True):
    """List of candidates; ``context`` contains columns that all its items share.

    Only rules read the context of items that are not raw.
    """

    items: list[Item]
    id: str | int | UnsetType = UNSET
    context: dict[str, Raw] | UnsetType = UNSET


#: Id of a list, an item or an event.
Id = Annotated[str, Meta(min_length=1, max_length=512)] | int
#: Seconds since 1970 (or the unit of the log that the model was trained on), or ISO 8601.
Time = Annotated[str, Meta(max_length=64)] | float


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
    time
        Time of the lists, for history features and rules; default: now.
    probability
        Return the probability of the outcome that the model is calibrated for: of ranked items at
        their ranks, of scores at the most examined position.
    """

    model: Annotated[str, Meta(max_length=512)] | UnsetType = UNSET
    items: list[Item] | UnsetType = UNSET
    context: dict[str, Raw] | UnsetType = UNSET
    lists: list[ListRequest] | UnsetType = UNSET
    unknown: Literal["error", "zero"] | UnsetType = UNSET
    time: Time | UnsetType = UNSET
    probability: bool | UnsetType = UNSET


#: Decoded later: a rule set, or a bool.
_Rules = Annotated[
    msgspec.Raw,
    Meta(
        extra_json_schema={"anyOf": [{"$ref": "#/components/schemas/RuleSet"}, {"type": "boolean"}]}
    ),
]


class RankRequest(ScoreRequest, forbid_unknown_fields=True):
    """Request for a ranking.

    Attributes
    ----------
    k
        Return only the best k items of each list.
    explain
        Explain the position of each item by its 10 largest contributions (true) or by this many.
    id
        Id of the list in ``items``; lists of a batch have their own.
    record
        Record the returned lists as shown, so that outcomes can refer to their ids.
    rules
        Rules for this request, as in a rules file, instead of the model's rules file; false: none.
    """

    k: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    explain: bool | Annotated[int, Meta(ge=0, le=1000)] | UnsetType = UNSET
    id: Id | UnsetType = UNSET
    record: bool | UnsetType = UNSET
    rules: _Rules | UnsetType = UNSET


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
    rank_by_score
        Rank, from 1, that its score alone would give; if rules apply.
    rules
        Names of the rules that moved it.
    probability
        Probability of the outcome at this rank, if the request has ``probability``.
    """

    index: int
    score: float
    id: str | int | UnsetType = UNSET
    explanation: Terms | UnsetType = UNSET
    lead: Terms | UnsetType = UNSET
    rank_by_score: int | UnsetType = UNSET
    rules: tuple[str, ...] | UnsetType = UNSET
    probability: float | UnsetType = UNSET


class RemovedItem(msgspec.Struct, gc=False):
    """Item that a rule removed."""

    index: int
    rule: str
    id: str | int | UnsetType = UNSET


class RuleConflict(msgspec.Struct, gc=False):
    """Rule that could not be followed, and what happened instead."""

    rule: str
    message: str


class RuleReport(msgspec.Struct, gc=False):
    """Items that rules removed, and rules that could not be followed."""

    removed: list[RemovedItem]
    conflicts: list[RuleConflict]


class RankedList(msgspec.Struct):
    """Ranking of one list of a batch."""

    ranking: list[RankedItem]
    id: str | int | UnsetType = UNSET
    rules: RuleReport | UnsetType = UNSET


class ListScores(msgspec.Struct):
    """Scores of one list of a batch, in the order of its items."""

    scores: list[float]
    id: str | int | UnsetType = UNSET
    probabilities: list[float] | UnsetType = UNSET


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
    rules: RuleReport | UnsetType = UNSET
    #: Whether the lists will be recorded, if the request asked for it; false under overload.
    recorded: bool | UnsetType = UNSET


class ScoreReply(_Reply, kw_only=True):
    """Scores in the order of the items."""

    scores: list[float] | UnsetType = UNSET
    probabilities: list[float] | UnsetType = UNSET
    lists: list[ListScores] | UnsetType = UNSET


class ModelEntry(msgspec.Struct, frozen=True):
    """Served model, or a file that could not be loaded.

    Attributes
    ----------
    kind
        ``linear``, ``bundle``, or ``none`` if nothing could be loaded under this name.
    required
        Columns that the model reads, or its history features; no others need to be sent.
    required_count, topics_count
        Number of all names; the lists ``required`` and ``topics`` stop after 10,000.
    reads
        Form of items that the model reads: ``features`` or ``raw``.
    example
        Items that the model can rank.
    rules
        Names of the rules that its lists follow.
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
    rules: list[str] = []
    error: str | None = None


class ShownItem(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Item of a shown list, with its raw columns."""

    id: Id
    raw: dict[str, Raw] | UnsetType = UNSET


class ShownEvent(
    msgspec.Struct,
    tag_field="type",
    tag="shown",
    rename={"list_id": "list"},
    forbid_unknown_fields=True,
):
    """A list that was shown, its items in displayed order.

    Attributes
    ----------
    id
        Id of the event; an event whose id was seen before is ignored.
    list_id
        Id of the list (``list`` in JSON), which outcomes refer to.
    time
        When it was shown; default: now.
    context
        Raw columns that all items share.
    """

    id: Id
    list_id: Id
    items: list[ShownItem]
    context: dict[str, Raw] | UnsetType = UNSET
    time: Time | UnsetType = UNSET


class OutcomeEvent(
    msgspec.Struct,
    tag_field="type",
    tag="outcome",
    rename={"list_id": "list"},
    forbid_unknown_fields=True,
):
    """What happened to an item of a shown list: columns of its row get these values."""

    id: Id
    list_id: Id
    item: Id
    outcomes: dict[str, bool | float]
    time: Time | UnsetType = UNSET


class EventsReply(msgspec.Struct, frozen=True):
    """What became of the events of a request; all of them are in the log.

    Attributes
    ----------
    accepted
        Events that count.
    duplicates
        Events or lists whose id was seen before; they are ignored.
    unmatched
        Outcomes of an unknown list or item; they are ignored.
    late
        Accepted outcomes that came after their list had become visible.
    unknown_columns
        Columns of outcomes that no feature reads, with the number of outcomes.
    """

    accepted: int
    duplicates: int
    unmatched: int
    late: int
    unknown_columns: dict[str, int]


class StateReply(msgspec.Struct, frozen=True):
    """State of the history features.

    Attributes
    ----------
    mode
        ``events`` if events feed the state, ``snapshots`` if newer snapshots replace it.
    keys, evicted
        Number of keys by feature, and of keys that were removed because of ``--max-keys``.
    bytes
        Memory of the tables and of waiting rows.
    last_event, clock
        Latest time of an event, and of a ranked list.
    lists_waiting
        Lists that are not visible yet, or whose outcomes are still accepted.
    late_lists, late_outcomes
        Lists and outcomes that came after they should have been visible.
    parity
        Whether features are the same as an offline pass over the same events would compute.
    """

    mode: str
    keys: dict[str, int]
    bytes: int
    last_event: str | None
    clock: str | None
    lists_waiting: int
    late_lists: int
    late_outcomes: int
    evicted: dict[str, int]
    parity: bool


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
