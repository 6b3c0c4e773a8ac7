"""Compare the columns of a log, and a model's scores of it, with the model's training log.

A model of a raw log stores a summary of its training lists: shares, never rows. A number is
summarised by its deciles, a category by 16 groups of its values (by hash) and by the set of its
values, as hashes, the scores of a list by their distances from its mean. The population stability
index of a column,

    PSI = sum_b (p_b - q_b) ln(p_b / q_b),

compares the shares q in training with the current shares p, over all groups and the missing values;
shares below 1e-4 count as 1e-4. Below .1 little has changed, above .25 much.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.log_summary import GROUP_BITS, ColumnSummary, LogSummary
from rankine.core.specs import LogColumns
from rankine.model import LinearModel
from rankine.model.checks import read_progress
from rankine.transforms.categories import HashedFeatures, categories, distinct, feature_indices
from rankine.transforms.log_columns import numeric_values
from rankine.transforms.value_sets import ValueHasher, ValueSet

#: Minimum share of a group in a PSI.
_MIN_SHARE = 1e-4
#: Largest share of a set of hashes at which new values can be told from known ones.
_MAX_FULL = 0.9
_DECILES = np.arange(1, 10) / 10


class ColumnDrift(NamedTuple):
    """Change of a column since the training.

    Attributes
    ----------
    psi
        Population stability index.
    missing, missing_before
        Share of missing values now and in training.
    unseen
        Share of the values that were not in the training log; None for numbers.
    shift
        Largest difference of the two distribution functions at a decile of the training, for
        numbers.
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
    values: Mapping[str, ValueSet],
) -> LogSummary:
    """Summarise sampled rows; ``scores`` are distances from the means of their lists."""
    numeric = {*spec.numeric, *(field.column for field in spec.binned)}
    summaries = {}
    for name in spec.columns:
        if name in numeric:
            summaries[name] = _summarise_numbers(numeric_values(columns[name], name))
        else:
            summaries[name] = _summarise_categories(columns, name)
    packed = {name: value_set.pack() for name, value_set in values.items()}
    return LogSummary(lists, len(scores), summaries, _summarise_numbers(scores), packed)


def value_hashers(spec: LogColumns) -> list[ValueHasher]:
    """Return what hashes the values of each categorical column whose values the model lacks."""
    known = {*spec.numeric, *(field.column for field in spec.binned)}
    if not spec.tables:  # categories of tables are the most frequent values only
        known |= {field.column for field in spec.one_hot}
    return [ValueHasher(name) for name in spec.columns if name not in known]


def _summarise_numbers(values: NDArray[np.float64]) -> ColumnSummary:
    finite = values[np.isfinite(values)]
    missing = round(1 - len(finite) / max(len(values), 1), 6)
    if len(finite) == 0:
        return ColumnSummary(missing, (1.0,), ())
    cuts = np.unique(np.quantile(finite, _DECILES, method="inverted_cdf"))
    groups = np.searchsorted(cuts, finite, side="right")
    shares = np.bincount(groups) / len(finite)
    return ColumnSummary(missing, _rounded(shares), tuple(cuts.tolist()))


def _summarise_categories(columns: Mapping[str, Any], name: str) -> ColumnSummary:
    values, codes = distinct(columns, (name,))
    features = _group_features(name)
    features.add_texts(values)
    groups = feature_indices(features, values)
    if codes is not None:
        groups = groups[codes]
    present = groups[groups >= 0]
    # An empty column has shares of 0, rather than a division by zero.
    shares = np.bincount(present, minlength=1 << GROUP_BITS) / max(len(present), 1)
    missing = 1 - len(present) / max(len(groups), 1)
    return ColumnSummary(round(missing, 6), _rounded(shares))


def _rounded(shares: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(share), 6) for share in shares)


def _group_features(name: str) -> HashedFeatures:
    """Return the group of each value of a categorical column; -1 for a missing one."""
    return HashedFeatures((name,), GROUP_BITS, 0)


def summary_of(model: LinearModel) -> LogSummary | None:
    """Return the summary of a model's training log; None where it has none."""
    return read_progress(model.provenance).log


class DriftMonitor:
    """Counts current rows against the summary of a training log; threads may share it."""

    def __init__(self, summary: LogSummary, spec: LogColumns) -> None:
        self.summary = summary
        self.rows = 0
        #: Summary of each column, and of the scores under an empty name.
        self._summaries = {**summary.columns, "": summary.scores}
        self._lock = threading.Lock()
        self._groups = {name: _group_features(name) for name in summary.columns}
        self._hashers = {hasher.column: hasher for hasher in value_hashers(spec)}
        self._values = {
            name: ValueSet.unpack(text)
            for name, text in summary.values.items()
            if name in self._hashers
        }
        self._one_hot = {field.column: frozenset(field.values) for field in spec.one_hot}
        self._counts = {
            name: np.zeros(len(column.shares), np.int64) for name, column in self._summaries.items()
        }
        self._missing = dict.fromkeys(self._summaries, 0)
        self._unseen = dict.fromkeys(self._summaries, 0)

    def add(
        self, columns: Mapping[str, Sequence[Any]], n_rows: int, scores: NDArray[np.float64]
    ) -> None:
        """Count rows; ``scores`` are distances from the means of their lists.

        An absent column is missing everywhere.
        """
        # A server scores requests in several threads, which share one monitor.
        with self._lock:
            self.rows += n_rows
            for name, summary in self.summary.columns.items():
                if name not in columns:
                    self._missing[name] += n_rows
                elif summary.cuts is not None:
                    self._count_numbers(name, numeric_values(columns[name], name))
                else:
                    self._count_categories(name, columns)
            self._count_numbers("", scores)

    def _count_numbers(self, name: str, values: NDArray[np.float64]) -> None:
        summary = self._summaries[name]
        finite = values[np.isfinite(values)]
        self._missing[name] += len(values) - len(finite)
        groups = np.searchsorted(np.array(summary.cuts), finite, side="right")
        self._counts[name] += np.bincount(groups, minlength=len(summary.shares))

    def _count_categories(self, name: str, columns: Mapping[str, Any]) -> None:
        keys = categories(columns[name], name)
        groups = feature_indices(self._groups[name], keys)
        self._missing[name] += int((groups < 0).sum())
        self._counts[name] += np.bincount(groups[groups >= 0], minlength=1 << GROUP_BITS)
        if name in self._values:
            hashes = self._hashers[name].hash_rows(columns)
            self._unseen[name] += self._values[name].count_new(hashes)
        elif name in self._one_hot:
            trained = self._one_hot[name]
            self._unseen[name] += sum(
                group >= 0 and str(key) not in trained
                for key, group in zip(keys, groups.tolist(), strict=True)
            )

    def drift(self) -> list[ColumnDrift]:
        """Compare every column with the training; the last one, without a name, is the scores."""
        with self._lock:
            return [self._column_drift(name) for name in self._summaries]

    def _column_drift(self, name: str) -> ColumnDrift:
        summary = self._summaries[name]
        counts, n_missing = self._counts[name], self._missing[name]
        n_present = int(counts.sum())
        missing = n_missing / max(n_present + n_missing, 1)
        current = np.append(counts * ((1 - missing) / max(n_present, 1)), missing)
        trained = np.append(np.array(summary.shares) * (1 - summary.missing), summary.missing)
        p, q = np.maximum(current, _MIN_SHARE), np.maximum(trained, _MIN_SHARE)
        psi = float(((p - q) * np.log(p / q)).sum())
        unseen = shift = None
        if summary.cuts is not None:
            difference = np.cumsum(counts / max(n_present, 1)) - np.cumsum(summary.shares)
            shift = float(np.abs(difference).max())
        elif name in self._one_hot or name in self._values:
            unseen = self._unseen[name] / max(n_present, 1)
        if name in self._values:
            # New values whose hash is in the set by chance are not counted.
            full = self._values[name].full_share
            unseen = None if full > _MAX_FULL else min(1.0, float(unseen or 0.0) / (1 - full))
        return ColumnDrift(name, psi, missing, summary.missing, unseen, shift)

    def counters(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of missing and unseen values of each column."""
        with self._lock:
            return {n: (self._missing[n], self._unseen[n]) for n in self.summary.columns}


@dataclass(frozen=True)
class Drift:
    """Changes since the training, and those above their limits.

    Attributes
    ----------
    rows
        Rows that were counted.
    columns, scores
        Change of every column, and of the scores.
    alarms
        A sentence for each change above its limit.
    """

    rows: int
    columns: list[ColumnDrift]
    scores: ColumnDrift
    alarms: list[str]

    @classmethod
    def from_monitor(
        cls,
        monitor: DriftMonitor,
        threshold: float = 0.25,
        max_unseen: float = 0.2,
        max_missing: float = 0.1,
    ) -> Drift:
        """Check the counts of a monitor against limits.

        Parameters
        ----------
        threshold
            Largest PSI of a column or the scores.
        max_unseen
            Largest share of values that were not in the training log.
        max_missing
            Largest increase of a share of missing values.
        """
        *columns, scores = monitor.drift()
        alarms = []
        for drift in (*columns, scores):
            name = "the scores"
            if drift.column:
                name = f"column {drift.column!r}"
            if drift.psi > threshold:
                alarms.append(f"{name}: PSI {drift.psi:.3f} is above {threshold:g}")
            if drift.unseen is not None and drift.unseen > max_unseen:
                share = f"{drift.unseen:.0%} of the values were never seen in training"
                alarms.append(f"{name}: {share}, above {max_unseen:.0%}")
            if drift.missing - drift.missing_before > max_missing:
                alarms.append(
                    f"{name}: {drift.missing:.0%} missing, {drift.missing_before:.0%} in training"
                )
        return cls(monitor.rows, columns, scores, alarms)

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values."""
        return {
            "rows": self.rows,
            "columns": {drift.column: _to_dict(drift) for drift in self.columns},
            "scores": _to_dict(self.scores),
            "alarms": self.alarms,
        }

    def cells(self) -> list[tuple[str, ...]]:
        """Format the columns and the scores as rows of a table with ``DRIFT_HEADER``."""
        return [_format_cells(drift) for drift in (*self.columns, self.scores)]


#: Names of the cells.
DRIFT_HEADER = ("column", "PSI", "unseen", "shift", "missing", "in training")


def _format_cells(drift: ColumnDrift) -> tuple[str, ...]:
    unseen = shift = ""
    if drift.unseen is not None:
        unseen = f"{drift.unseen:.1%}"
    if drift.shift is not None:
        shift = f"{drift.shift:.3f}"
    return (
        drift.column or "(scores)",
        f"{drift.psi:.3f}",
        unseen,
        shift,
        f"{drift.missing:.1%}",
        f"{drift.missing_before:.1%}",
    )


def _to_dict(drift: ColumnDrift) -> dict[str, Any]:
    return {name: value for name, value in drift._asdict().items() if name != "column"}
