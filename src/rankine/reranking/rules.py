"""Rules that are ready to be applied to scored lists."""

from __future__ import annotations

import contextlib
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.column_values import CATEGORY_FIX, category_text
from rankine.core.errors import ParameterError, RankineError, SchemaError
from rankine.core.safe_text import printable
from rankine.core.user_warnings import warn_user
from rankine.data.expressions import Expression, parse_condition, parse_expression
from rankine.reranking.kernels import (
    AT_LEAST,
    AT_MOST,
    SPREAD,
    Constraints,
    Similarity,
    place_items,
)
from rankine.reranking.schema import RuleSet, parse_rules, period, read_rules

#: Kinds of constraints on the order, in order of priority.
_CONSTRAINTS = {"at_most": AT_MOST, "at_least": AT_LEAST, "spread": SPREAD}
_NO_CODES = np.empty((0, 0), dtype=np.int64)
_NO_VECTORS = np.empty((0, 0))
#: Largest number of columns named in an error.
_MAX_NAMES = 10


@dataclass(frozen=True)
class _Entry:
    """A rule with its parsed conditions: ``query`` for the list, ``where`` for its items.

    ``rule`` is its entry in the rules file. It applies from ``start`` to before ``end``, in seconds
    since 1970.
    """

    kind: str
    name: str
    rule: Any
    start: float
    end: float
    query: Expression | None
    where: Expression | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the rule reads."""
        names: list[str] = []
        for condition in (self.query, self.where):
            if condition is not None:
                names += condition.columns
        for field in ("column", "by", "vectors"):
            value = getattr(self.rule, field, None)
            if value is not None:
                names += [value] if isinstance(value, str) else value
        return tuple(dict.fromkeys(names))


class Move(NamedTuple):
    """Why an item has its rank.

    Attributes
    ----------
    row
        Row of the item.
    rank_by_score
        Rank, from 1, that it would have by its score alone.
    rules
        Names of the rules that moved it; empty if it moved only because other items did.
    """

    row: int
    rank_by_score: int
    rules: tuple[str, ...]


class Conflict(NamedTuple):
    """A rule that could not be followed, and what happened instead."""

    rule: str
    message: str


class RuleRanking(NamedTuple):
    """Items in the order that the rules demand.

    Attributes
    ----------
    order
        Row numbers, best first, without removed items.
    moves
        One for each item of the order; empty without ``explain``.
    removed
        Row and rule of each item that a filter removed; empty without ``explain``.
    conflicts
        Rules that could not be followed; empty without ``explain``.
    """

    order: NDArray[np.int64]
    moves: tuple[Move, ...] = ()
    removed: tuple[tuple[int, str], ...] = ()
    conflicts: tuple[Conflict, ...] = ()


class Rules:
    """Rules for ranked lists: pins, boosts, filters, quotas, spacing and diversity.

    Parameters
    ----------
    entries
        Rules by kind, as the tables of a rules file.

    Attributes
    ----------
    names
        Name of every rule, in order of priority.
    columns
        Columns that the rules read.
    warnings
        Rules that can never have an effect, with the reason.

    Examples
    --------
    >>> rules = Rules({"at_most": [{"column": "brand", "count": 1, "first": 2}]})
    >>> rules.rank([3.0, 2.0, 1.0], {"brand": ["a", "a", "b"]}).order.tolist()
    [0, 2, 1]
    """

    def __init__(self, entries: Mapping[str, Any] | RuleSet) -> None:
        self.spec = entries if isinstance(entries, RuleSet) else parse_rules(entries)
        self._entries = tuple(_parse_entry(*entry) for entry in self.spec.entries())
        self.names = tuple(entry.name for entry in self._entries)
        repeated = {name for name in self.names if self.names.count(name) > 1}
        if repeated:
            raise SchemaError(
                f"two rules are called {printable(min(repeated))!r}",
                fix="Give every rule its own name",
                parameter="rules",
            )
        columns = (name for entry in self._entries for name in entry.columns)
        self.columns = tuple(dict.fromkeys(columns))
        self.warnings = tuple(_find_idle(self._entries, clock.time()))
        # Then no list needs the clock, or the columns of conditions on the query.
        self._always_in_effect = all(_has_no_limits(entry) for entry in self._entries)

    @classmethod
    def load(cls, path: str | Path) -> Rules:
        """Read a rules file (TOML); warn about rules that can never have an effect."""
        try:
            rules = cls(read_rules(path))
        except RankineError as error:
            error.file = error.file or str(path)
            raise
        for warning in rules.warnings:
            warn_user(f"{path}: {warning}")
        return rules

    def __repr__(self) -> str:
        return f"Rules({', '.join(self.names)})"

    def rank(
        self,
        scores: Any,
        columns: Mapping[str, Any] | Callable[[str], Any],
        k: int | None = None,
        *,
        time: float | None = None,
        explain: bool = False,
    ) -> RuleRanking:
        """Rank one list by its scores and the rules. Equal values keep the row order.

        Parameters
        ----------
        scores
            Score of each item.
        columns
            The columns that rules in effect read, one value per item (vectors: a matrix), or a
            function that returns the column of a name.
        k
            Number of items to return; default: all.
        time
            Seconds since 1970 at which the list is shown; default: now.
        explain
            Whether to report the rules that moved items, and conflicts.
        """
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        read = _Columns(columns, len(scores))
        entries: Sequence[_Entry] = self._entries
        if not self._always_in_effect:
            moment = clock.time() if time is None else time
            entries = [entry for entry in entries if _is_in_effect(entry, moment, read)]
        ranking = _ListRanking(scores, entries, read)
        order = ranking.place(k, explain=explain)
        if not explain:
            return RuleRanking(order)
        return ranking.explain(order)


def compile_kernels() -> None:
    """Compile everything that applying rules needs."""
    Rules({"spread": [{"column": "brand"}]}).rank([1.0, 2.0], {"brand": ["a", "b"]})


# -- parsing and checking rules -----------------------------------------------------------------


def _parse_entry(kind: str, number: int, rule: Any) -> _Entry:
    name = rule.name or f"{kind} {number}"
    label = f"{kind} {number}"
    if rule.name:
        label += f" ({printable(rule.name)})"
    start, end = period(rule, label)
    if kind == "at_most" and (rule.column is None) == (rule.where is None):
        raise SchemaError(
            f"{label}: needs either a column or a condition",
            fix="Write column = 'brand', or where = '...'",
            parameter="rules",
        )
    if kind == "at_least" and rule.count > rule.first:
        raise SchemaError(
            f"{label}: {rule.count} items do not fit into the first {rule.first}",
            fix="Lower count, or raise first",
            parameter="rules",
        )
    if kind == "diversify" and (rule.by is None) == (rule.vectors is None):
        raise SchemaError(
            f"{label}: needs either by or vectors",
            fix="Write by = 'brand', or vectors = 'embedding'",
            parameter="rules",
        )
    conditions = []
    for field in ("query", "where"):
        text = getattr(rule, field, None)
        try:
            conditions.append(None if text is None else _parse(text))
        except ParameterError as error:
            raise SchemaError(
                f"{label}: {field}: {error.reason}", fix=error.fix, parameter="rules"
            ) from error
    return _Entry(kind, name, rule, start, end, *conditions)


def _parse(text: str) -> Expression:
    """Parse a condition or, as for labels, a formula; the error is the condition's."""
    try:
        return parse_condition(text)
    except ParameterError:
        with contextlib.suppress(ParameterError):
            return parse_expression(text)
        raise


def _has_no_limits(entry: _Entry) -> bool:
    """Return whether a rule applies to every list at any time."""
    return entry.query is None and not entry.rule.start and not entry.rule.end


def _find_idle(entries: Sequence[_Entry], now: float) -> Iterator[str]:
    """Find rules that can never have an effect; yield a sentence on each."""
    first_diversify = None
    pins: dict[tuple[str, int], str] = {}
    for entry in entries:
        rule, reason = entry.rule, None
        for field, condition in (("query", entry.query), ("where", entry.where)):
            if condition is not None and not condition.can_hold():
                reason = f"{field} = {condition.text!r} holds for no item"
        if entry.end <= now:
            reason = f"its period ended at {rule.end}"
        elif entry.kind == "at_most" and rule.count >= rule.first:
            reason = f"count = {rule.count} is not below first = {rule.first}"
        elif entry.kind == "diversify" and first_diversify is not None:
            reason = f"{first_diversify!r} is always in effect before it"
        elif entry.kind == "pin" and (rule.where, rule.position) in pins:
            reason = f"{pins[rule.where, rule.position]!r} is the same pin"
        if reason is not None:
            yield f"rule {entry.name!r} can never have an effect: {reason}"
        elif _has_no_limits(entry) and entry.kind == "diversify":
            first_diversify = entry.name
        elif _has_no_limits(entry) and entry.kind == "pin":
            pins[rule.where, rule.position] = entry.name


# -- columns of one list ------------------------------------------------------------------------


class _Columns(Mapping[str, Any]):
    """The columns of one list, read when a rule needs them."""

    def __init__(self, columns: Mapping[str, Any] | Callable[[str], Any], n_rows: int) -> None:
        self._names: Mapping[str, Any] = {}
        self._n_rows = n_rows
        self._values: dict[str, Any] = {}
        self._read: Callable[[str], Any]
        if callable(columns):
            self._read = columns
        else:
            self._names, self._read = columns, columns.get

    def __contains__(self, name: object) -> bool:
        return True  # so that expressions call __getitem__, whose error names the columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        values = self._read(name)
        if values is None:
            fix = "Send the column with the items, or correct the rule"
            if self._names:
                names = sorted(map(str, self._names))[:_MAX_NAMES]
                fix = f"Correct the rule, or add the column; there are {', '.join(names)}"
            raise SchemaError(
                f"there is no column {printable(name)!r}", fix=printable(fix, 500), column=name
            )
        if len(values) != self._n_rows:
            raise SchemaError(
                f"column {printable(name)!r} has {len(values)} values for {self._n_rows} items",
                fix="Pass one value per item",
                column=name,
            )
        self._values[name] = values
        return values

    def codes(self, name: str) -> NDArray[np.int64]:
        """Return the number of each item's category: the first row that has it; -1 if missing."""
        values = self[name]
        if hasattr(values, "tolist"):
            values = values.tolist()
        numbers: dict[Any, int] = {}
        rows = range(self._n_rows)
        # Columns of texts, the usual case, need no loop in Python. A value that cannot be hashed
        # is no category: the loop below raises for it.
        with contextlib.suppress(TypeError):
            codes = np.fromiter(map(numbers.setdefault, values, rows), np.int64, self._n_rows)
            if set(map(type, numbers)) == {str}:
                if "" in numbers:
                    codes[codes == numbers[""]] = -1
                return codes
        numbers = {"": -1}
        codes = np.empty(self._n_rows, dtype=np.int64)
        for row, value in enumerate(values):
            try:
                codes[row] = numbers.setdefault(category_text(value), row)
            except TypeError as error:
                raise SchemaError(
                    f"{value!r} in column {printable(name)!r} is not a category",
                    fix=CATEGORY_FIX,
                    column=name,
                    row=row,
                ) from error
        return codes

    def unit_vectors(self, names: str | tuple[str, ...]) -> NDArray[np.float64]:
        """Return vectors of length 1; a vector of zeros stays as it is."""
        try:
            if isinstance(names, str):
                vectors = np.array(self[names], dtype=np.float64)
            else:
                vectors = np.array([self[name] for name in names], dtype=np.float64).T
        except (TypeError, ValueError) as error:
            raise self._bad_vectors(names, str(error)) from error
        if vectors.ndim != 2 or vectors.shape[1] == 0:
            raise self._bad_vectors(names, f"shape {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise self._bad_vectors(names, "a number is missing or infinite")
        lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        return np.ascontiguousarray(vectors / np.where(lengths > 0, lengths, 1.0))

    @staticmethod
    def _bad_vectors(names: str | tuple[str, ...], reason: str) -> SchemaError:
        text = names if isinstance(names, str) else ", ".join(names)
        return SchemaError(
            f"{printable(text)!r} does not give one vector per item: {reason}",
            fix="Pass the same number of finite numbers for every item",
            column=text,
        )


def _holds(entry: _Entry, condition: Expression, columns: _Columns) -> NDArray[np.bool_]:
    """Return the items that meet a condition; errors name the rule."""
    try:
        return condition.holds(columns)
    except SchemaError as error:
        raise _name_rule(entry, error) from error


def _name_rule(entry: _Entry, error: SchemaError) -> SchemaError:
    reason = f"rule {entry.name!r}: {error.reason}"
    return SchemaError(reason, fix=error.fix, column=error.column, row=error.row)


def _is_in_effect(entry: _Entry, moment: float, columns: _Columns) -> bool:
    """Return whether a rule applies at a time and to the query of a list."""
    if not entry.start <= moment < entry.end:
        return False
    if entry.query is None:
        return True
    holds = _holds(entry, entry.query, columns)
    if holds.all():
        return True
    if holds.any():
        raise SchemaError(
            f"rule {entry.name!r}: query = {entry.query.text!r} holds for a part of the list only",
            fix="Use columns that have one value in each list, or write the condition as where",
        )
    return False


# -- applying rules to one list -----------------------------------------------------------------


class _ListRanking:
    """The ranking of one list by the rules in effect for it.

    Filters remove items, boosts change their values, pins take ranks, and the kernel fills the
    other ranks under the constraints and the diversity.
    """

    def __init__(
        self, scores: NDArray[np.float64], entries: Sequence[_Entry], columns: _Columns
    ) -> None:
        self.scores = scores
        self.columns = columns
        #: Scores, boosts included.
        self.value = scores
        self.conflicts: list[Conflict] = []
        self.by_kind: dict[str, list[_Entry]] = {}
        for entry in entries:
            self.by_kind.setdefault(entry.kind, []).append(entry)
        #: Items that no filter removed; None without filters.
        self.usable: NDArray[np.bool_] | None = None
        #: Items that meet the condition of a rule, by its name.
        self.masks: dict[str, NDArray[np.bool_]] = {}
        #: The rule that pinned an item.
        self.pins: dict[int, _Entry] = {}
        self.constraints = [entry for kind in _CONSTRAINTS for entry in self.by_kind.get(kind, ())]
        #: The constraint that moved each item, as ``place_items`` numbers them.
        self.reason = np.empty(0, dtype=np.int64)

    def _mask(self, entry: _Entry) -> NDArray[np.bool_]:
        """Return the items that meet the condition of a rule."""
        assert entry.where is not None  # noqa: S101 - narrows the type
        mask = self.masks[entry.name] = _holds(entry, entry.where, self.columns)
        return mask

    def place(self, k: int | None, *, explain: bool) -> NDArray[np.int64]:
        """Return the first k items."""
        for entry in self.by_kind.get("filter", ()):
            mask = self._mask(entry)
            self.usable = ~mask if self.usable is None else self.usable & ~mask
        self._add_boosts()
        # Stable: items of equal value keep the order of their rows.
        order = np.argsort(-self.value, kind="stable")
        if self.usable is not None:
            order = order[self.usable[order]]
        n_items = len(order)
        n_ranks = n_items if k is None else min(k, n_items)
        if n_items == 0:
            return order
        pinned = np.full(n_items, -1, dtype=np.int64)
        for entry in self.by_kind.get("pin", ()):
            self._pin(entry, order, pinned)
        self.reason = np.full(len(self.value) if explain else 0, -1, dtype=np.int64)
        return place_items(
            self.value,
            order,
            pinned,
            n_ranks,
            self._constraints(n_items),
            self._similarity(),
            explain,
            self.reason,
        )

    def _add_boosts(self) -> None:
        """Add boosts in units of the range of the scores, which removed items do not widen."""
        boosts = [*self.by_kind.get("boost", ()), *self.by_kind.get("bury", ())]
        if not boosts:
            return
        scores = self.scores if self.usable is None else self.scores[self.usable]
        unit = 0.0
        if len(scores):
            unit = float(scores.max() - scores.min())
        # Equal scores have no range. Then any unit does: every boost decides the order.
        unit = unit or 1.0
        self.value = self.scores.copy()
        for entry in boosts:
            sign = 1.0 if entry.kind == "boost" else -1.0
            self.value[self._mask(entry)] += sign * entry.rule.amount * unit

    def _pin(self, entry: _Entry, order: NDArray[np.int64], pinned: NDArray[np.int64]) -> None:
        """Pin the best matching item that no earlier rule took.

        If the position is taken the item gets the next free one, or else the last free one.
        """
        matches = order[self._mask(entry)[order]]
        if len(matches) == 0:
            if self.masks[entry.name].any():
                self.conflicts.append(Conflict(entry.name, "a filter removes all its items"))
            return
        item = next((i for i in matches.tolist() if i not in self.pins), None)
        if item is None:
            self.conflicts.append(Conflict(entry.name, "its items are pinned by other rules"))
            return
        position = entry.rule.position
        # There are as many ranks as items, so one is free.
        free_ranks = np.flatnonzero(pinned < 0)
        later = free_ranks[free_ranks >= position - 1]
        rank = int(later[0]) if len(later) else int(free_ranks[-1])
        pinned[rank] = item
        self.pins[item] = entry
        if rank + 1 != position:
            reason = f"the list has {len(pinned)} items"
            if position <= len(pinned):
                other = self.pins[int(pinned[position - 1])]
                reason = f"position {position} is taken by {other.name!r}"
            self.conflicts.append(Conflict(entry.name, f"{reason}: pinned at {rank + 1}"))

    def _constraints(self, n_items: int) -> Constraints:
        """Return the constraints in the form of the kernel."""
        codes = np.empty((len(self.constraints), len(self.value)), dtype=np.int64)
        limits = []
        for c, entry in enumerate(self.constraints):
            rule = entry.rule
            count = rule.distance if entry.kind == "spread" else rule.count
            limits.append((_CONSTRAINTS[entry.kind], count, min(rule.first, n_items)))
            if entry.where is None:
                codes[c] = self._read(entry, self.columns.codes, rule.column)
            else:
                codes[c] = self._mask(entry) - 1  # one group, number 0; -1 for the other items
        kind, count, first = np.array(limits, dtype=np.int64).reshape(-1, 3).T.copy()
        return Constraints(kind, count, first, codes)

    def _read(self, entry: _Entry, read: Callable[[Any], Any], names: Any) -> Any:
        """Read columns for a rule; errors name the rule."""
        try:
            return read(names)
        except SchemaError as error:
            raise _name_rule(entry, error) from error

    def _similarity(self) -> Similarity:
        """Return the diversity of the first such rule; record the others as conflicts."""
        entries = self.by_kind.get("diversify", ())
        if not entries:
            return Similarity(0.0, 0, _NO_CODES, _NO_VECTORS)
        entry, *ignored = entries
        for other in ignored:
            self.conflicts.append(Conflict(other.name, f"{entry.name!r} is in effect"))
        rule = entry.rule
        codes, vectors = _NO_CODES, _NO_VECTORS
        if rule.vectors is not None:
            vectors = self._read(entry, self.columns.unit_vectors, rule.vectors)
        else:
            names = (rule.by,) if isinstance(rule.by, str) else rule.by
            codes = np.array([self._read(entry, self.columns.codes, name) for name in names])
        return Similarity(rule.weight, rule.first, codes, vectors)

    # -- explaining -----------------------------------------------------------------------------

    def explain(self, order: NDArray[np.int64]) -> RuleRanking:
        """Return the order with the rules that moved or removed items, and conflicts."""
        rank_by_score = np.empty(len(self.scores), dtype=np.int64)
        rank_by_score[np.argsort(-self.scores, kind="stable")] = np.arange(1, len(self.scores) + 1)
        boosts = [*self.by_kind.get("boost", ()), *self.by_kind.get("bury", ())]
        moves = []
        for i in order.tolist():
            names = []
            if i in self.pins:
                names.append(self.pins[i].name)
            else:
                names += [entry.name for entry in boosts if self.masks[entry.name][i]]
                if self.reason[i] >= 0:
                    names.append(self._constraint_name(int(self.reason[i])))
            moves.append(Move(i, int(rank_by_score[i]), tuple(names)))
        removed = []
        if self.usable is not None:
            for i in np.flatnonzero(~self.usable).tolist():
                filters = self.by_kind["filter"]
                name = next(entry.name for entry in filters if self.masks[entry.name][i])
                removed.append((i, name))
        self.conflicts += self._broken_constraints(order)
        return RuleRanking(order, tuple(moves), tuple(removed), tuple(self.conflicts))

    def _constraint_name(self, number: int) -> str:
        """Return the name of a rule that ``reason`` numbers: after the constraints, diversity."""
        if number == len(self.constraints):
            return self.by_kind["diversify"][0].name
        return self.constraints[number].name

    def _broken_constraints(self, order: NDArray[np.int64]) -> Iterable[Conflict]:
        """Compare the order with every constraint; yield a conflict for each that is broken."""
        n_usable = len(self.scores) if self.usable is None else int(self.usable.sum())
        rules = self._constraints(n_usable)
        for c, entry in enumerate(self.constraints):
            rule, first = entry.rule, int(rules.first[c])
            codes = rules.codes[c][order[:first]]
            if entry.kind == "at_least":
                n_members = int((codes >= 0).sum())
                # With fewer ranks than ``first`` the members may come later.
                if n_members < rule.count and len(order) >= first:
                    text = f"{n_members} instead of {rule.count} items in the first {rule.first}"
                    yield Conflict(entry.name, text)
            elif entry.kind == "at_most":
                counts = np.bincount(codes[codes >= 0], minlength=1)
                if counts.max() > rule.count:
                    value = "the group"
                    if rule.column is not None:
                        row = int(order[:first][codes == counts.argmax()][0])
                        value = printable(repr(self.columns[rule.column][row]), 60)
                    text = f"{counts.max()} instead of {rule.count} items of {value}"
                    yield Conflict(entry.name, f"{text} in the first {rule.first}")
            else:
                n_close = 0
                for rank in range(1, len(codes)):
                    near = codes[max(rank - rule.distance, 0) : rank]
                    n_close += bool(codes[rank] >= 0 and (near == codes[rank]).any())
                if n_close:
                    yield Conflict(entry.name, f"{n_close} items are closer to an equal one")
