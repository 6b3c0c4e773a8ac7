"""What the columns of a log and the scores of a model looked like in training, and look like now.

A model of a raw log remembers a summary of the lists it learned from: shares, never rows. A number
is told by its deciles, a category by 16 groups of its values (by hash), the scores of a list by
their distances from its mean. The population stability index of a column,

    PSI = sum_b (p_b - q_b) ln(p_b / q_b),

compares the shares q of the training with the shares p of now, over all groups and the missing
values; shares below 1e-4 count as 1e-4. Below .1 little has changed, above .25 much.
"""

from __future__ import annotations

import base64
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ModelError
from rankine.core.specs import LogColumns
from rankine.model import LinearModel
from rankine.transforms.categories import HashedPlaces, categories, places_of
from rankine.transforms.log_columns import numeric_values

#: Groups of a category, as a power of two.
_GROUP_BITS = 4
#: Most places of hashed values that are told apart, as a power of two.
SEEN_BITS = 18
#: Least share of a group.
_FLOOR = 1e-4
#: Where in training each tenth of the values ended.
_TENTHS = np.arange(1, 10) / 10


class ColumnSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of a column's rows: missing, and by group of the others.

    ``cuts`` are the ends of the groups of numbers; None for categories.
    """

    missing: float
    shares: tuple[float, ...]
    cuts: tuple[float, ...] | None = None


class LogSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a training log held.

    Attributes
    ----------
    lists, rows
        Sampled lists (chosen by a hash of their ids) and their rows.
    columns
        By name.
    scores
        Distances of scores from the mean of their list.
    seen
        Places of the hashed space that some row of the whole log had: packed bits, compressed.
    """

    lists: int
    rows: int
    columns: dict[str, ColumnSummary]
    scores: ColumnSummary
    seen: str = ""


class ColumnDrift(NamedTuple):
    """A column now against the training.

    Attributes
    ----------
    psi
        Population stability index.
    missing, missing_before
        Shares of missing values.
    unseen
        Share of the values that the training never saw; None for numbers.
    shift
        Largest distance between the two distributions at a decile of the training, for numbers.
    """

    column: str
    psi: float
    missing: float
    missing_before: float
    unseen: float | None
    shift: float | None


def summarise(
    spec: LogColumns,
    columns: Mapping[str, Any],
    scores: NDArray[np.float64],
    lists: int,
    seen: NDArray[np.bool_],
) -> LogSummary:
    """The summary of sampled rows; ``scores`` are distances from the means of their lists."""
    found = {}
    for name in spec.columns:
        if _is_number(spec, name):
            found[name] = _of_numbers(numeric_values(columns[name], name))
        else:
            groups = _Groups(name).of(columns[name])
            known = groups[groups >= 0]
            shares = np.bincount(known, minlength=1 << _GROUP_BITS) / max(len(known), 1)
            missing = 1 - len(known) / max(len(groups), 1)
            found[name] = ColumnSummary(round(missing, 6), _rounded(shares))
    packed = zlib.compress(np.packbits(seen).tobytes(), 9) if seen.any() else b""
    text = base64.b64encode(packed).decode("ascii")
    return LogSummary(lists, len(scores), found, _of_numbers(scores), text)


def _is_number(spec: LogColumns, name: str) -> bool:
    return name in spec.numeric or any(name == field.column for field in spec.binned)


def _of_numbers(values: NDArray[np.float64]) -> ColumnSummary:
    known = values[np.isfinite(values)]
    missing = round(1 - len(known) / max(len(values), 1), 6)
    if len(known) == 0:
        return ColumnSummary(missing, (1.0,), ())
    cuts = np.unique(np.quantile(known, _TENTHS, method="inverted_cdf"))
    places = np.searchsorted(cuts, known, side="right")
    shares = np.bincount(places) / len(known)
    return ColumnSummary(missing, _rounded(shares), tuple(cuts.tolist()))


def _rounded(shares: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(share), 6) for share in shares)


class _Groups(HashedPlaces):
    """Groups of a column's values; -1 for a missing one."""

    def __init__(self, name: str) -> None:
        super().__init__((name,), _GROUP_BITS, 0)
        self.column = name

    def of(self, values: Any) -> NDArray[np.int64]:
        """Group of each value."""
        return places_of(self, categories(values, self.column))


def summary_of(model: LinearModel) -> LogSummary | None:
    """What a model remembers of its training log; None where it remembers nothing."""
    noted = model.provenance.get("log")
    try:
        return None if noted is None else msgspec.convert(noted, LogSummary)
    except msgspec.ValidationError as error:
        raise ModelError(
            f"the summary of the training log is damaged: {error}", fix="Train the model again"
        ) from error


class DriftMonitor:
    """Counts rows of today against the summary of a training; threads may share it."""

    def __init__(self, summary: LogSummary, spec: LogColumns) -> None:
        self.summary = summary
        self._lock = threading.Lock()
        self._groups = {name: _Groups(name) for name in summary.columns}
        self._places = {name: HashedPlaces((name,), spec.hash_bits, 0) for name in spec.hashed}
        self._known = {field.column: frozenset(field.values) for field in spec.one_hot}
        self.rows = 0
        names = [*summary.columns, ""]
        sizes = [len(one.shares) for one in (*summary.columns.values(), summary.scores)]
        self._counts = {n: np.zeros(k, np.int64) for n, k in zip(names, sizes, strict=True)}
        self._missing = dict.fromkeys(names, 0)
        self._unseen = dict.fromkeys(names, 0)

    @cached_property
    def _seen(self) -> NDArray[np.bool_]:
        packed = zlib.decompress(base64.b64decode(self.summary.seen)) if self.summary.seen else b""
        return np.unpackbits(np.frombuffer(packed, dtype=np.uint8)).astype(np.bool_)

    def add(
        self, columns: Mapping[str, Sequence[Any]], n_rows: int, scores: NDArray[np.float64]
    ) -> None:
        """Count rows; ``scores`` are distances from the means of their lists.

        An absent column is missing everywhere.
        """
        with self._lock:
            self.rows += n_rows
            for name, before in self.summary.columns.items():
                if name not in columns:
                    self._missing[name] += n_rows
                elif before.cuts is not None:
                    self._count(name, before, numeric_values(columns[name], name))
                else:
                    self._count_values(name, columns[name])
            self._count("", self.summary.scores, scores)

    def _count(self, name: str, before: ColumnSummary, values: NDArray[np.float64]) -> None:
        known = values[np.isfinite(values)]
        self._missing[name] += len(values) - len(known)
        places = np.searchsorted(np.array(before.cuts), known, side="right")
        self._counts[name] += np.bincount(places, minlength=len(before.shares))

    def _count_values(self, name: str, values: Any) -> None:
        plain = categories(values, name)
        groups = places_of(self._groups[name], plain)
        self._missing[name] += int((groups < 0).sum())
        self._counts[name] += np.bincount(groups[groups >= 0], minlength=1 << _GROUP_BITS)
        if name in self._known:
            known = self._known[name]
            self._unseen[name] += sum(
                g >= 0 and str(v) not in known for v, g in zip(plain, groups.tolist(), strict=True)
            )
        elif name in self._places and len(self._seen):
            places = places_of(self._places[name], plain)
            places = places[places >= 0] & (len(self._seen) - 1)
            self._unseen[name] += int((~self._seen[places]).sum())

    def drift(self) -> list[ColumnDrift]:
        """Every column now against the training; the last, without a name, is the scores."""
        with self._lock:
            both = [*self.summary.columns.items(), ("", self.summary.scores)]
            return [self._drift(name, before) for name, before in both]

    def _drift(self, name: str, before: ColumnSummary) -> ColumnDrift:
        counts, missing = self._counts[name], self._missing[name]
        known = int(counts.sum())
        share = missing / max(known + missing, 1)
        now = np.append(counts * ((1 - share) / max(known, 1)), share)
        then = np.append(np.array(before.shares) * (1 - before.missing), before.missing)
        p, q = np.maximum(now, _FLOOR), np.maximum(then, _FLOOR)
        psi = float(((p - q) * np.log(p / q)).sum())
        unseen = shift = None
        if before.cuts is not None:
            ends = np.cumsum(counts / max(known, 1)) - np.cumsum(before.shares)
            shift = float(np.abs(ends).max())
        elif name in self._known:
            unseen = self._unseen[name] / max(known, 1)
        elif name in self._places and len(self._seen):
            # A new value may fall on a place that another one had: told by how full they are.
            free = 1 - float(self._seen.mean())
            unseen = min(1.0, self._unseen[name] / max(known, 1) / free) if free > 0.1 else None
        return ColumnDrift(name, psi, share, before.missing, unseen, shift)

    def counters(self) -> dict[str, tuple[int, int]]:
        """Missing and unseen values of each column."""
        with self._lock:
            return {n: (self._missing[n], self._unseen[n]) for n in self.summary.columns}


@dataclass(frozen=True)
class Drift:
    """What has changed since the training, and what has changed more than it may.

    Attributes
    ----------
    rows
        Rows that were counted.
    columns, scores
        Every column, and the scores.
    alarms
        A sentence for everything above its limit.
    """

    rows: int
    columns: list[ColumnDrift]
    scores: ColumnDrift
    alarms: list[str]

    @classmethod
    def from_monitor(
        cls,
        drift_monitor: DriftMonitor,
        threshold: float = 0.25,
        max_unseen: float = 0.2,
        max_missing: float = 0.1,
    ) -> Drift:
        """Judge what a drift_monitor has counted.

        Parameters
        ----------
        threshold
            Largest PSI of a column or the scores.
        max_unseen
            Largest share of values that the training never saw.
        max_missing
            Largest rise of a share of missing values.
        """
        *columns, scores = drift_monitor.drift()
        alarms = []
        for one in (*columns, scores):
            name = f"column {one.column!r}" if one.column else "the scores"
            if one.psi > threshold:
                alarms.append(f"{name}: PSI {one.psi:.3f} is above {threshold:g}")
            if one.unseen is not None and one.unseen > max_unseen:
                share = f"{one.unseen:.0%} of the values were never seen in training"
                alarms.append(f"{name}: {share}, above {max_unseen:.0%}")
            rise = one.missing - one.missing_before
            if rise > max_missing:
                alarms.append(
                    f"{name}: {one.missing:.0%} missing, {one.missing_before:.0%} in training"
                )
        return cls(drift_monitor.rows, columns, scores, alarms)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "rows": self.rows,
            "columns": {one.column: _plain(one) for one in self.columns},
            "scores": _plain(self.scores),
            "alarms": self.alarms,
        }

    def cells(self) -> list[tuple[str, ...]]:
        """Column, PSI, unseen, shift, missing and missing in training, for a table."""

        def text(value: float | None, form: str) -> str:
            return "" if value is None else format(value, form)

        return [
            (
                one.column or "(scores)",
                f"{one.psi:.3f}",
                text(one.unseen, ".1%"),
                text(one.shift, ".3f"),
                f"{one.missing:.1%}",
                f"{one.missing_before:.1%}",
            )
            for one in (*self.columns, self.scores)
        ]


#: Names of the cells.
DRIFT_HEADER = ("column", "PSI", "unseen", "shift", "missing", "in training")


def _plain(one: ColumnDrift) -> dict[str, Any]:
    return {name: value for name, value in one._asdict().items() if name != "column"}
