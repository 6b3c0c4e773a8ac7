"""Entries of curves that people fix: what an edit states and records, and how it is read."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from rankine.core.errors import ParameterError
from rankine.core.safe_text import printable
from rankine.core.stores import read_bytes

#: Largest size of a file of fixed entries.
MAX_BYTES = 1 << 20
#: Largest length of a name or note.
MAX_TEXT = 1000
_Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]


class FixedEntry(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """Cells of a curve and the value that they have.

    Attributes
    ----------
    column
        Name of the column, or its number, from 0, if columns have no names.
    value
        Value of the curve.
    low, high
        Range of values, ``low <= x < high`` (``from`` and ``to`` in files); None is open. The bins
        that the range meets are fixed; both ends alike name the bin of that number.
    category
        A category, as text or, if the column holds numbers, as number.
    missing, other
        Missing values; values without a category of their own.
    free
        Free the entries that were fixed before. Then there is no value.

    Without range, category, ``missing`` and ``other``, the entry names all cells but that of
    missing values.
    """

    column: str | int
    value: float | None = None
    low: float | None = field(default=None, name="from")
    high: float | None = field(default=None, name="to")
    category: str | float | None = None
    missing: bool = False
    other: bool = False
    free: bool = False

    def __post_init__(self) -> None:
        """Check the fields against each other."""
        if (self.value is None) != self.free:
            raise ValueError("either a value or free = true is needed")
        numbers = (self.value, self.low, self.high)
        if any(number is not None and not math.isfinite(number) for number in numbers):
            raise ValueError("value, from and to must be finite numbers; leave an open end out")
        has_range = self.low is not None or self.high is not None
        if has_range + (self.category is not None) + self.missing + self.other > 1:
            raise ValueError("a range, a category, missing and other exclude each other")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("from is above to")

    @property
    def text(self) -> str:
        """The entry in one line, such as ``price from 100 to 200: 0.1``."""
        parts = [str(self.column)]
        if self.low is not None:
            parts.append(f"from {self.low:g}")
        if self.high is not None:
            parts.append(f"to {self.high:g}")
        if self.category is not None:
            parts.append(f"= {self.category}")
        if self.missing:
            parts.append("missing")
        if self.other:
            parts.append("other")
        value = "free" if self.value is None else f"{self.value:g}"
        return f"{' '.join(parts)}: {value}"


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Fixed entries, who fixed them, and what that changed.

    Attributes
    ----------
    fixed
        The entries, with the ranges of the bins that they met.
    by, note
        Who fixed them, and why.
    objective_before, objective_after
        The objective without and with this edit, each up to ``gap``.
    gap
        The larger of both certified gaps.
    metric, metric_before, metric_after
        The metric on the evaluation set, if there was one.
    """

    fixed: tuple[FixedEntry, ...]
    by: _Text | None = None
    note: _Text | None = None
    objective_before: float | None = None
    objective_after: float | None = None
    gap: float | None = None
    metric: str | None = None
    metric_before: float | None = None
    metric_after: float | None = None

    @property
    def lines(self) -> list[str]:
        """Who fixed what and what it changed, in lines of text."""
        lines = [entry.text for entry in self.fixed]
        if self.by or self.note:
            lines.insert(0, ": ".join(text for text in (self.by, self.note) if text))
        if self.objective_before is not None and self.objective_after is not None:
            lines.append(f"objective {self.objective_before:.6g}, then {self.objective_after:.6g}")
        if self.metric_before is not None and self.metric_after is not None:
            lines.append(f"{self.metric} {self.metric_before:.4f}, then {self.metric_after:.4f}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the edit as JSON types."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {**fields, "fixed": list(fields["fixed"])}


class _EditFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fixed: list[dict[str, Any]] = []
    by: _Text | None = None
    note: _Text | None = None


def read_edit(path: str) -> Edit:
    """Read a TOML file of fixed entries; an error names the entry."""
    content = read_bytes(path)
    if len(content) > MAX_BYTES:
        raise ParameterError(
            f"{path}: more than {MAX_BYTES:,} bytes",
            parameter="fixed",
            fix="Pass a file of fixed entries",
        )
    try:
        file = msgspec.convert(tomllib.loads(content.decode("utf-8")), _EditFile)
    except (ValueError, RecursionError) as error:  # also of UTF-8, TOML and msgspec
        raise ParameterError(
            f"{path} is not a file of fixed entries: {error}",
            parameter="fixed",
            fix="Write by, note and tables [[fixed]] with column, from and to, and value",
        ) from error
    return Edit(tuple(_checked(file.fixed, f"{path}: ")), file.by, file.note)


def check_edit(fixed: Any, by: str | None = None, note: str | None = None) -> Edit:
    """Return the edit of fixed entries, as ``parse_fixed`` takes them."""
    texts: dict[str, Any] = {"by": by, "note": note}
    for name, text in texts.items():
        if text is not None and not (isinstance(text, str) and 0 < len(text) <= MAX_TEXT):
            raise ParameterError(
                f"not a text of 1 to {MAX_TEXT:,} characters", parameter=name, fix="Pass a text"
            )
    return Edit(parse_fixed(fixed), **texts)


def parse_fixed(fixed: Any) -> tuple[FixedEntry, ...]:
    """Return the entries of a mapping from columns to entries, or a sequence of entries.

    A key is a range ``(low, high)``, a category, None for missing values or infinity for other
    values; a number in place of the entries fixes all of them. The value None frees an entry.
    """
    if isinstance(fixed, Mapping):
        fixed = [
            {"column": column, **_key_fields(key), **_value_fields(value)}
            for column, entries in fixed.items()
            for key, value in _items(entries)
        ]
    if isinstance(fixed, (str, bytes)) or not isinstance(fixed, Sequence):
        raise ParameterError(
            f"{printable(repr(fixed))} does not fix entries of columns",
            parameter="fixed",
            fix="Pass for example {'price': {(100, 200): 0.1}, 'brand': {'acme': 0.0}}",
        )
    return tuple(_checked(fixed))


def _items(entries: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(entries, Mapping):
        yield from entries.items()
    else:
        yield (None, None), entries


def _key_fields(key: Any) -> dict[str, Any]:
    """Return the fields of an entry that a key of a mapping stands for."""
    if key is None or key != key:  # noqa: PLR0124 - NaN is a missing value too
        return {"missing": True}
    if isinstance(key, tuple) and len(key) == 2:
        low, high = key
        return {"from": _end(low, -math.inf), "to": _end(high, math.inf)}
    if isinstance(key, Real) and key == math.inf:
        return {"other": True}
    return {"category": _plain(key)}


def _end(end: Any, opened: float) -> Any:
    if end is None or (isinstance(end, Real) and end == opened):
        return None
    return _plain(end)


def _plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python."""
    return value.item() if hasattr(value, "item") else value


def _value_fields(value: Any) -> dict[str, Any]:
    if value is None:
        return {"free": True}
    return {"value": _plain(value)}


def _checked(entries: Sequence[Any], place: str = "") -> Iterator[FixedEntry]:
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, FixedEntry):
            yield entry
            continue
        label, fields = f"{place}entry {number}", entry
        if isinstance(entry, Mapping):
            column = _plain(entry.get("column"))
            fields = {**entry, "column": column}
            label += f" (column {printable(repr(column))})"
        try:
            yield msgspec.convert(fields, FixedEntry, strict=True)
        except msgspec.ValidationError as error:
            names = ", ".join(f.encode_name for f in msgspec.structs.fields(FixedEntry))
            raise ParameterError(
                f"{label}: {error}", parameter="fixed", fix=f"The fields are {names}"
            ) from error
