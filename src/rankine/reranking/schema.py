"""The rules file: entries by kind, checked when they are read.

The same structs are the ``rules`` of a request to the server, in JSON.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from rankine.core.errors import SchemaError, attach_file_to_errors
from rankine.core.safe_text import printable

#: Largest size of a rules file.
MAX_BYTES = 1 << 20
_Count = Annotated[int, Meta(ge=1, le=10**6)]
_Positive = Annotated[float, Meta(gt=0)]
_Condition = Annotated[str, Meta(min_length=1, max_length=1000)]
_Column = Annotated[str, Meta(min_length=1)]
_Time = Annotated[str, Meta(max_length=64)]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fields of every rule.

    Attributes
    ----------
    name
        Name in errors and explanations; by default the kind and the number, such as ``pin 1``.
    query
        Condition of the list, over columns that have one value in each list.
    start, end
        First and last moment of the period in which the rule applies (``from`` and ``until`` in the
        file), ISO 8601, in UTC without an offset. A date alone is the whole day.
    """

    name: Annotated[str, Meta(max_length=120)] = ""
    query: _Condition | None = None
    start: _Time | None = field(default=None, name="from")
    end: _Time | None = field(default=None, name="until")


class Filter(Rule, frozen=True, kw_only=True):
    """Remove the items that meet a condition."""

    where: _Condition


class Pin(Rule, frozen=True, kw_only=True):
    """Put the best item that meets a condition at a position, from 1."""

    where: _Condition
    position: _Count


class Boost(Rule, frozen=True, kw_only=True):
    """Add to the scores of items: ``amount`` times the range of the scores of the list."""

    where: _Condition
    amount: _Positive


class Bury(Boost, frozen=True, kw_only=True):
    """Subtract from the scores of items: ``amount`` times the range of the scores of the list."""


class UpperQuota(Rule, frozen=True, kw_only=True):
    """Show at most ``count`` items of each value of a column, or of a group, in the first ranks."""

    count: Annotated[int, Meta(ge=0, le=10**6)]
    first: _Count
    column: _Column | None = None
    where: _Condition | None = None


class LowerQuota(Rule, frozen=True, kw_only=True):
    """Show at least ``count`` items that meet a condition in the first ranks."""

    where: _Condition
    count: _Count
    first: _Count


class SpreadRule(Rule, frozen=True, kw_only=True):
    """Keep ``distance`` items between two items with the same value of a column."""

    column: _Column
    distance: _Count = 1
    first: _Count = 10**6


class Diversify(Rule, frozen=True, kw_only=True):
    """Rank by maximal marginal relevance: prefer items unlike those above them.

    Items are similar by the share of the columns ``by`` that have equal values, or by the cosine of
    ``vectors``: a column of vectors, or a list of numeric columns.
    """

    weight: Annotated[float, Meta(gt=0, lt=1)]
    by: _Column | tuple[_Column, ...] | None = None
    vectors: _Column | tuple[_Column, ...] | None = None
    first: _Count = 10**6


class RuleSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rules by kind, in the order of their priority."""

    filter: tuple[Filter, ...] = ()
    pin: tuple[Pin, ...] = ()
    at_most: tuple[UpperQuota, ...] = ()
    at_least: tuple[LowerQuota, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    diversify: tuple[Diversify, ...] = ()
    boost: tuple[Boost, ...] = ()
    bury: tuple[Bury, ...] = ()

    def entries(self) -> Iterator[tuple[str, int, Any]]:
        """Iterate over kind, number from 1, and rule."""
        for kind in self.__struct_fields__:
            for number, rule in enumerate(getattr(self, kind), 1):
                yield kind, number, rule


_KINDS: dict[str, type[Rule]] = {
    f.name: f.type.__args__[0] for f in msgspec.structs.fields(RuleSet)
}


def read_rules(path: str | Path) -> RuleSet:
    """Read a rules file."""
    with attach_file_to_errors(str(path)):
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise SchemaError(
                f"cannot be read: {error.strerror}", fix="Check the path", parameter="rules"
            ) from error
        return decode_rules(content)


def decode_rules(content: bytes) -> RuleSet:
    """Return the rules of a file's content, which is TOML."""
    if len(content) > MAX_BYTES:
        raise SchemaError(
            f"more than {MAX_BYTES:,} bytes", fix="Split the rules by model", parameter="rules"
        )
    try:
        entries = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also of UTF-8 and of TOML
        raise SchemaError(
            f"not a file of rules: {error}",
            fix="Write TOML tables such as [[pin]]",
            parameter="rules",
        ) from error
    return parse_rules(entries)


def parse_rules(entries: Mapping[str, Any]) -> RuleSet:
    """Check rules by kind, as TOML or JSON gives them; an error names the entry."""
    rules: dict[str, Any] = {}
    for kind, tables in entries.items():
        if kind not in _KINDS:
            raise SchemaError(
                f"there is no kind of rule {printable(kind)!r}",
                fix=f"Use {', '.join(f'[[{name}]]' for name in _KINDS)}",
                parameter="rules",
            )
        if not isinstance(tables, (list, tuple)):
            raise SchemaError(
                f"{kind} is not a list of rules", fix=f"Write [[{kind}]]", parameter="rules"
            )
        rules[kind] = tuple(_entry(kind, number, table) for number, table in enumerate(tables, 1))
    return RuleSet(**rules)


def _entry(kind: str, number: int, table: Any) -> Rule:
    rule_type = _KINDS[kind]
    if isinstance(table, rule_type):
        return table
    label = f"{kind} {number}"
    if isinstance(table, Mapping):
        # TOML has dates and times; JSON has only their texts.
        table = {
            key: value.isoformat() if isinstance(value, date) else value
            for key, value in table.items()
        }
        if isinstance(table.get("name"), str):
            label += f" ({printable(table['name'])})"
    try:
        return msgspec.convert(table, rule_type, strict=True)
    except msgspec.ValidationError as error:
        names = ", ".join(f.encode_name for f in msgspec.structs.fields(rule_type))
        raise SchemaError(
            f"{label}: {error}", fix=f"Fields of {kind} are {names}", parameter="rules"
        ) from error


def parse_moment(text: str, *, end: bool = False) -> float:
    """Return a time in seconds since 1970; a date alone is its start or, with ``end``, its end."""
    moment = datetime.fromisoformat(text)
    if end and len(text) <= len("2026-11-19"):
        moment += timedelta(days=1)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def period(rule: Rule, label: str) -> tuple[float, float]:
    """Return the start and the end of a rule's period, in seconds since 1970."""
    limits = [-math.inf, math.inf]
    for k, (name, text) in enumerate((("from", rule.start), ("until", rule.end))):
        if text is None:
            continue
        try:
            limits[k] = parse_moment(text, end=k == 1)
        except ValueError:
            raise SchemaError(
                f"{label}: {name} = {printable(text)!r} is not a time",
                fix="Write a date, or a time such as 2026-11-20T08:00:00Z",
                parameter="rules",
            ) from None
    if limits[0] >= limits[1]:
        raise SchemaError(
            f"{label}: from is not before until", fix="Exchange them", parameter="rules"
        )
    return limits[0], limits[1]
