"""Whether one ranking is really better than another: means, paired tests, changed queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DataError, ParameterError
from rankine.data.dataset import Dataset
from rankine.evaluation.significance import (
    PairedTests,
    bootstrap_means,
    holm,
    paired_tests,
    percentile_interval,
)
from rankine.evaluation.systems import ScoredSystem, load_judged_data, load_systems
from rankine.evaluation.tables import Table
from rankine.evaluation.trec import Qrels
from rankine.metrics import Metric, parse_metric
from rankine.metrics.engine import query_weights


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
class ChangedQuery:
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
    metric skips or that weigh nothing (``skipped``) are left out. ``weighted``: whether queries had
    weights of their own.
    """

    metric: Metric
    systems: Sequence[System]
    pairs: Sequence[Pair]
    changed: Sequence[ChangedQuery]
    ids: NDArray[Any]
    values: NDArray[np.float64]
    skipped: int
    confidence: float
    margin: float
    n_resamples: int
    weighted: bool = False

    def tables(self) -> list[Table]:
        """Means, pairs, tests, and the changed queries side by side."""
        changes = [_side_by_side(change) for change in self.changed]
        return [self._means(), self._pairs(), self._tests(), *changes]

    def _means(self) -> Table:
        sign = 1.0 if self.metric.larger_is_better else -1.0
        best = max(range(len(self.systems)), key=lambda i: sign * self.systems[i].mean)
        left_out = ", weighted" if self.weighted else ""
        left_out += f", {self.skipped} skipped" if self.skipped else ""
        return Table(
            f"{self.metric} on {len(self.ids)} queries{left_out}",
            ("system", "mean", f"{self.confidence:.0%} interval"),
            [(s.name, f"{s.mean:.4f}", f"[{s.low:.4f}, {s.high:.4f}]") for s in self.systems],
            bold=frozenset({(best, 1)}),
        )

    def _pairs(self) -> Table:
        title = f"Paired differences (equivalence: interval within {self.margin:g})"
        return pairs_table(title, self.pairs, self.confidence)

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
            "weighted": self.weighted,
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


def pairs_table(title: str, pairs: Sequence[Pair], confidence: float) -> Table:
    """Differences of pairs of systems; proven ones stand out."""
    rows = [
        (
            f"{p.b} - {p.a}",
            f"{p.difference:+.4f}",
            f"[{p.low:+.4f}, {p.high:+.4f}]",
            f"{p.wins}/{p.ties}/{p.losses}",
            p.verdict,
        )
        for p in pairs
    ]
    header = ("pair", "mean", f"{confidence:.0%} interval", "wins/ties/losses", "verdict")
    proven = frozenset((r, 4) for r, pair in enumerate(pairs) if pair.significant)
    return Table(title, header, rows, bold=proven)


def _p_value(p: float) -> str:
    return f"{p:.4f}" if p >= 0.00005 else "<0.0001"


def _side_by_side(change: ChangedQuery) -> Table:
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


#: Differences below this are ties: rounding of sums in another order.
_EQUAL = 1e-12


def compare(
    systems: Sequence[Any] | Mapping[str, Any],
    data: Any,
    metric: str | Metric = "ndcg@10",
    *,
    query_weight: Any = None,
    confidence: float = 0.95,
    margin: float = 0.01,
    n_resamples: int = 10_000,
    random_state: int = 0,
    n_changed: int = 3,
    depth: int = 10,
    **options: Any,
) -> Comparison:
    """Compare rankings of the same queries.

    Parameters
    ----------
    systems
        Two or more of: model file, TREC run file, ``LinearModel``, fitted ranker, ``Run``, array
        of scores; a mapping names them.
    data
        A ``Dataset``, labelled files, or a qrels file (for runs).
    metric
        What is compared, query by query.
    query_weight
        What a query counts: a mapping from query id to weight, or one number per query in order
        of first appearance. Means, intervals and tests are weighted; won and lost queries are
        counted. Weights that the data carries for training are not used.
    confidence
        Of the bootstrap intervals; 1 - confidence is the level of the tests.
    margin
        Differences within plus or minus ``margin`` do not matter to you: an interval that lies
        inside states equivalence (a large p-value never does).
    n_resamples
        Bootstrap samples and sign flips; the same ``random_state`` gives the same bits.
    n_changed, depth
        How many of the most changed queries to show per pair, and how many ranks of them.
    **options
        Of ``rankine.load``, when ``data`` is a path.

    Returns
    -------
    Comparison
        Per-query values, means, pairs with tests, the most changed queries.

    Examples
    --------
    >>> import numpy as np
    >>> from rankine import Dataset
    >>> rng = np.random.default_rng(0)
    >>> data = Dataset.from_arrays(rng.normal(size=(400, 2)), rng.integers(0, 3, 400),
    ...                            np.repeat(np.arange(40), 10))
    >>> result = compare({"labels": data.y, "noise": data.X[:, 0]}, data)
    >>> result.pairs[0].verdict
    'worse'
    """
    known = isinstance(data, (Dataset, Qrels))
    judged = (
        data
        if known
        else load_judged_data(
            data, list(systems.values() if isinstance(systems, Mapping) else systems), **options
        )
    )
    contestants = load_systems(systems, judged)
    return compare_systems(
        contestants,
        parse_metric(metric),
        query_weight=query_weight,
        confidence=confidence,
        margin=margin,
        n_resamples=n_resamples,
        random_state=random_state,
        n_changed=n_changed,
        depth=depth,
    )


def compare_systems(
    contestants: Sequence[ScoredSystem],
    metric: Metric,
    *,
    query_weight: Any = None,
    confidence: float,
    margin: float,
    n_resamples: int,
    random_state: int,
    n_changed: int,
    depth: int,
) -> Comparison:
    """Compare what has been read and scored already."""
    if len(contestants) < 2:
        raise ParameterError("there is only one system", fix="Give two or more to compare")
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence={confidence} is not in (0, 1)", fix="Use 0.95, say")
    if margin < 0:
        raise ParameterError(f"margin={margin} is negative", fix="Use 0.01, say")
    if n_resamples < 100:
        raise ParameterError(f"n_resamples={n_resamples} is too few", fix="Use 10000, say")
    columns = np.column_stack([c.values(metric) for c in contestants])
    weight = query_weights(contestants[0].queries, None, query_weight)
    counts = ~np.isnan(columns).any(axis=1)
    kept = np.flatnonzero(counts if weight is None else counts & (weight > 0))
    values = columns[kept]
    if len(values) < 2:
        raise DataError(
            f"{len(values)} queries have a value of {metric}",
            fix="Compare on two queries at least; a handful shows nothing",
        )
    places = list(combinations(range(len(contestants)), 2))
    names = [c.name for c in contestants]
    systems, pairs = compare_values(
        names, values, metric, places, confidence, margin, n_resamples, random_state,
        None if weight is None else weight[kept],
    )  # fmt: skip
    ids = contestants[0].queries.ids
    changed = []
    for a, b in places:
        size = np.abs(_difference(values, a, b))
        largest = kept[np.argsort(-size, kind="stable")[:n_changed]]
        changed += _changed(contestants[a], contestants[b], columns[:, [a, b]], largest, depth)
    return Comparison(
        metric, systems, pairs, changed, ids[kept], values, len(ids) - len(kept), confidence,
        margin, n_resamples, weighted=weight is not None,
    )  # fmt: skip


def compare_values(
    names: Sequence[str],
    values: NDArray[np.float64],
    metric: Metric,
    places: Sequence[tuple[int, int]],
    confidence: float,
    margin: float,
    n_resamples: int,
    random_state: int,
    weight: NDArray[np.float64] | None = None,
) -> tuple[list[System], list[Pair]]:
    r"""Means of the columns of ``values`` (one row per query), and the pairs (a, b) of them.

    With weights :math:`v_q > 0` means are :math:`\sum_q v_q x_q / \sum_q v_q`, also over drawn
    queries; the tests ask whether :math:`v_q d_q` has a mean of zero.
    """
    share = np.ones(len(values)) if weight is None else weight / weight.mean()
    weighted = values * share[:, None]
    drawn = bootstrap_means(np.column_stack([weighted, share]), n_resamples, random_state)
    means = drawn[:, :-1] / drawn[:, -1:]
    sign = 1.0 if metric.larger_is_better else -1.0
    gaps = [_difference(values, a, b) * share for a, b in places]
    tests = [paired_tests(gap, n_resamples, random_state) for gap in gaps]
    adjusted = [PairedTests(*each) for each in zip(*(holm(p) for p in zip(*tests, strict=True)),
                                                   strict=True)]  # fmt: skip
    pairs = []
    for (a, b), gap, raw, corrected in zip(places, gaps, tests, adjusted, strict=True):
        low, high = percentile_interval(means[:, b] - means[:, a], confidence)
        significant = bool(corrected.randomisation < 1 - confidence)
        equivalent = bool(-margin < low and high < margin)
        mean = float(gap.mean())
        verdict = "equivalent" if equivalent else "undecided"
        if significant:
            verdict = "better" if sign * mean > 0 else "worse"
            verdict += ", within the margin" if equivalent else ""
        wins, losses = int((sign * gap > 0).sum()), int((sign * gap < 0).sum())
        tally = (wins, len(gap) - wins - losses, losses)
        ends = (names[a], names[b], mean, low, high)
        pairs.append(Pair(*ends, *raw, *corrected, *tally, significant, equivalent, verdict))
    systems = [
        System(name, float(weighted[:, c].mean()), *percentile_interval(means[:, c], confidence))
        for c, name in enumerate(names)
    ]
    return systems, pairs


def _difference(values: NDArray[np.float64], a: int, b: int) -> NDArray[np.float64]:
    found = values[:, b] - values[:, a]
    return np.where(np.abs(found) > _EQUAL, found, 0.0)


def _changed(
    one: ScoredSystem, other: ScoredSystem, columns: NDArray[np.float64], largest: Any, depth: int
) -> list[ChangedQuery]:
    """The queries of the largest differences, with both rankings; equal ones are left out."""
    return [
        ChangedQuery(
            one.name,
            other.name,
            one.queries.ids[[query]].tolist()[0],
            float(columns[query, 0]),
            float(columns[query, 1]),
            one.ranking(query, depth),
            other.ranking(query, depth),
        )
        for query in largest.tolist()
        if columns[query, 0] != columns[query, 1]
    ]
