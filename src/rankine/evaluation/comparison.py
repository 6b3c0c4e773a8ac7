"""The result of a comparison: means, pairs of systems, and the queries that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.evaluation.tables import Table
from rankine.metrics import Metric

__all__ = ["Changed", "Comparison", "Pair", "System"]


@dataclass(frozen=True)
class System:
    """Mean of one system with its bootstrap interval."""

    name: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Pair:
    """System ``b`` against system ``a``; differences are b - a.

    Attributes
    ----------
    difference, low, high
        Mean difference per query and its bootstrap interval.
    t_test, randomisation, wilcoxon
        Two-sided p-values; ``*_holm`` are adjusted for all pairs of the comparison.
    wins, ties, losses
        Queries where b is better, equal or worse.
    significant
        The adjusted randomisation test rejects equality at 1 - confidence.
    equivalent
        The whole interval of the difference lies within plus or minus ``margin``.
    verdict
        ``"better"``, ``"worse"``, ``"equivalent"`` or ``"undecided"``, with a remark when a proven
        difference is too small to matter.
    """

    a: str
    b: str
    difference: float
    low: float
    high: float
    t_test: float
    randomisation: float
    wilcoxon: float
    t_test_holm: float
    randomisation_holm: float
    wilcoxon_holm: float
    wins: int
    ties: int
    losses: int
    significant: bool
    equivalent: bool
    verdict: str


@dataclass(frozen=True)
class Changed:
    """One query where two systems differ most, with both rankings."""

    a: str
    b: str
    query: Any
    value_a: float
    value_b: float
    ranking_a: Sequence[Mapping[str, Any]]
    ranking_b: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Systems compared on the same queries.

    ``values`` holds one row per query of ``ids`` and one column per system; queries that the
    metric skips (``skipped``) are left out.
    """

    metric: Metric
    systems: Sequence[System]
    pairs: Sequence[Pair]
    changed: Sequence[Changed]
    ids: NDArray[Any]
    values: NDArray[np.float64]
    skipped: int
    confidence: float
    margin: float
    n_resamples: int

    def tables(self) -> list[Table]:
        """Means, pairs, tests, and the changed queries side by side."""
        changes = [_side_by_side(change) for change in self.changed]
        return [self._means(), self._pairs(), self._tests(), *changes]

    def _means(self) -> Table:
        sign = 1 if self.metric.larger_is_better else -1
        best = max(range(len(self.systems)), key=lambda i: sign * self.systems[i].mean)
        left_out = f", {self.skipped} skipped" if self.skipped else ""
        return Table(
            f"{self.metric} on {len(self.ids)} queries{left_out}",
            ("system", "mean", f"{self.confidence:.0%} interval"),
            [(s.name, f"{s.mean:.4f}", f"[{s.low:.4f}, {s.high:.4f}]") for s in self.systems],
            bold=frozenset({(best, 1)}),
        )

    def _pairs(self) -> Table:
        rows = [
            (
                f"{p.b} - {p.a}",
                f"{p.difference:+.4f}",
                f"[{p.low:+.4f}, {p.high:+.4f}]",
                f"{p.wins}/{p.ties}/{p.losses}",
                p.verdict,
            )
            for p in self.pairs
        ]
        return Table(
            f"Paired differences (equivalence: interval within {self.margin:g})",
            ("pair", "mean", f"{self.confidence:.0%} interval", "wins/ties/losses", "verdict"),
            rows,
            bold=frozenset((r, 4) for r, pair in enumerate(self.pairs) if pair.significant),
        )

    def _tests(self) -> Table:
        rows = [
            (
                f"{p.b} - {p.a}",
                *(_p_value(p) for p in (p.t_test, p.randomisation, p.wilcoxon)),
                _p_value(p.randomisation_holm),
            )
            for p in self.pairs
        ]
        return Table(
            f"p-values (Holm: randomisation test adjusted for {len(self.pairs)} "
            f"pair{'s' if len(self.pairs) > 1 else ''})",
            ("pair", "t-test", "randomisation", "Wilcoxon", "Holm"),
            rows,
        )

    def to_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """Plain data, as ``--json`` prints it."""
        plain: dict[str, Any] = {
            "metric": str(self.metric),
            "larger_is_better": self.metric.larger_is_better,
            "queries": len(self.ids),
            "skipped": self.skipped,
            "confidence": self.confidence,
            "margin": self.margin,
            "resamples": self.n_resamples,
            "systems": [asdict(system) for system in self.systems],
            "pairs": [asdict(pair) for pair in self.pairs],
            "changed": [{**asdict(change), "query": str(change.query)} for change in self.changed],
        }
        if per_query:
            rows = zip(self.ids.tolist(), self.values.tolist(), strict=True)
            plain["per_query"] = {str(query): row for query, row in rows}
        return plain

    def markdown(self) -> str:
        """All tables in Markdown."""
        return "\n".join(table.markdown() for table in self.tables())

    def latex(self) -> str:
        """All tables in LaTeX."""
        return "\n".join(table.latex() for table in self.tables())

    def __rich__(self) -> Any:
        from rich.console import Group

        return Group(*(part for table in self.tables() for part in (table, "")))


def _p_value(p: float) -> str:
    return f"{p:.4f}" if p >= 0.00005 else "<0.0001"


def _side_by_side(change: Changed) -> Table:
    rows = []
    for rank in range(max(len(change.ranking_a), len(change.ranking_b))):
        cells = [str(rank + 1)]
        for ranking in (change.ranking_a, change.ranking_b):
            if rank < len(ranking):
                item = ranking[rank]
                cells += [item["doc"], f"{item['label']:g}"]
            else:
                cells += ["", ""]
        rows.append(cells)
    return Table(
        f"Query {change.query}: {change.a} {change.value_a:.4f}, {change.b} {change.value_b:.4f}",
        ("rank", change.a, "label", change.b, "label"),
        rows,
        left=2,
    )
