"""Compare systems on the same queries: means, paired tests, most changed queries."""

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
    check_confidence,
    check_n_resamples,
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
    """Mean of one system and its bootstrap interval."""

    name: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Pair:
    """Comparison of system ``b`` with system ``a``; differences are b - a.

    Attributes
    ----------
    difference, low, high
        Mean difference per query and its bootstrap interval.
    t_test, randomisation, wilcoxon
        Two-sided p-values; ``*_holm`` are adjusted for all pairs of the comparison.
    wins, ties, losses
        Queries where b is better, equal or worse.
    significant
        Whether the adjusted randomisation test rejects equality at level 1 - confidence.
    equivalent
        Whether the whole interval of the difference is within plus or minus ``margin``.
    verdict
        ``"better"``, ``"worse"``, ``"equivalent"`` or ``"undecided"``, with a remark if a proven
        difference is within the margin.
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
    """A query with one of the largest differences of two systems, and both rankings.

    ``text`` is what was searched for, if the data has it.
    """

    a: str
    b: str
    query: Any
    value_a: float
    value_b: float
    ranking_a: Sequence[Mapping[str, Any]]
    ranking_b: Sequence[Mapping[str, Any]]
    text: str = ""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Systems compared on the same queries.

    ``values`` has one row per query of ``ids`` and one column per system. Queries that the metric
    skips or that have weight zero are left out; ``skipped`` is their number. ``weighted``: whether
    queries had weights.
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
        """Return tables of means, pairs, tests and the most changed queries."""
        changes = [_side_by_side(change) for change in self.changed]
        title = f"Paired differences (equivalence: interval within {self.margin:g})"
        pairs = pairs_table(title, self.pairs, self.confidence)
        return [self._means(), pairs, self._tests(), *changes]

    def _means(self) -> Table:
        best = max(range(len(self.systems)), key=lambda i: self.metric.sign * self.systems[i].mean)
        remarks = ""
        if self.weighted:
            remarks += ", weighted"
        if self.skipped:
            remarks += f", {self.skipped} skipped"
        return Table(
            f"{self.metric} on {len(self.ids)} queries{remarks}",
            ("system", "mean", f"{self.confidence:.0%} interval"),
            [(s.name, f"{s.mean:.4f}", f"[{s.low:.4f}, {s.high:.4f}]") for s in self.systems],
            bold=frozenset({(best, 1)}),
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
            optional=("Wilcoxon", "t-test"),
        )

    def to_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """Return data for JSON, as ``--json`` prints it."""
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
        """Format all tables in Markdown."""
        return "\n".join(table.markdown() for table in self.tables())

    def latex(self) -> str:
        """Format all tables in LaTeX."""
        return "\n".join(table.latex() for table in self.tables())

    def __rich__(self) -> Any:
        from rich.console import Group

        return Group(*(part for table in self.tables() for part in (table, "")))


def pairs_table(title: str, pairs: Sequence[Pair], confidence: float) -> Table:
    """Return a table of the differences of pairs of systems; proven ones are in bold."""
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
    return Table(
        title,
        header,
        rows,
        bold=proven,
        optional=("wins/ties/losses",),
        further_text=("verdict",),
    )


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
    query = f"{change.query} ({change.text})" if change.text else str(change.query)
    return Table(
        f"Query {query}: {change.a} {change.value_a:.4f}, {change.b} {change.value_b:.4f}",
        ("rank", change.a, "label", change.b, "label"),
        rows,
        left=2,
    )


#: Smaller differences are ties: they come from sums in another order.
_TIE = 1e-12


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
        Metric to compare, query by query.
    query_weight
        Weights of queries: a mapping from query id to weight, or one number per query in order of
        first appearance. Means, intervals and tests are weighted; won and lost queries are
        counted. Training weights of the data are not used.
    confidence
        Confidence level of the bootstrap intervals; 1 - confidence is the level of the tests.
    margin
        Largest difference that does not matter: two systems are equivalent if the whole interval
        is within plus or minus ``margin`` (a large p-value never proves equivalence).
    n_resamples
        Number of bootstrap samples and sign flips.
    random_state
        Seed; the same seed gives the same bits.
    n_changed, depth
        Number of most changed queries to show per pair, and of ranks of each.
    **options
        Options of ``rankine.load``, if ``data`` is a path.

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
    judged = data
    if not isinstance(data, (Dataset, Qrels)):
        # Which columns of a file are read depends on the models among the systems.
        values = systems.values() if isinstance(systems, Mapping) else systems
        judged = load_judged_data(data, list(values), **options)
    return compare_systems(
        load_systems(systems, judged),
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
    scored: Sequence[ScoredSystem],
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
    """Compare systems that have been read and scored already."""
    if len(scored) < 2:
        raise ParameterError(
            "there is only one system", fix="Pass two or more to compare", parameter="systems"
        )
    check_confidence(confidence)
    if margin < 0:
        raise ParameterError(f"{margin} is negative", fix="Use 0.01", parameter="margin")
    check_n_resamples(n_resamples)
    all_values = np.column_stack([system.values(metric) for system in scored])
    weight = query_weights(scored[0].queries, None, query_weight)
    # A query that one system has no value for would make the comparison unpaired.
    counted = ~np.isnan(all_values).any(axis=1)
    if weight is not None:
        counted &= weight > 0
    rows = np.flatnonzero(counted)
    values = all_values[rows]
    if len(values) < 2:
        raise DataError(
            f"{metric} is defined for {len(values)} queries",
            fix="Compare on at least two queries; a handful shows nothing",
        )
    index_pairs = list(combinations(range(len(scored)), 2))
    names = [system.name for system in scored]
    systems, pairs = compare_values(
        names, values, metric, index_pairs, confidence, margin, n_resamples, random_state,
        None if weight is None else weight[rows],
    )  # fmt: skip
    ids = scored[0].queries.ids
    changed = []
    for a, b in index_pairs:
        sizes = np.abs(_difference(values, a, b))
        # The stable sort shows the first of equally changed queries, whatever the machine.
        largest = rows[np.argsort(-sizes, kind="stable")[:n_changed]]
        changed += _changed(scored[a], scored[b], all_values[:, [a, b]], largest, depth)
    return Comparison(
        metric, systems, pairs, changed, ids[rows], values, len(ids) - len(rows), confidence,
        margin, n_resamples, weighted=weight is not None,
    )  # fmt: skip


def compare_values(
    names: Sequence[str],
    values: NDArray[np.float64],
    metric: Metric,
    index_pairs: Sequence[tuple[int, int]],
    confidence: float,
    margin: float,
    n_resamples: int,
    random_state: int,
    weight: NDArray[np.float64] | None = None,
) -> tuple[list[System], list[Pair]]:
    r"""Compare the columns of ``values`` (one row per query): means, and pairs (a, b) of them.

    With weights :math:`v_q > 0`, means are :math:`\sum_q v_q x_q / \sum_q v_q`, also over drawn
    queries, and tests are of a zero mean of :math:`v_q d_q`.
    """
    # Shares have mean 1, so that a weighted mean is a mean of values times shares.
    share = np.ones(len(values)) if weight is None else weight / weight.mean()
    weighted = values * share[:, None]
    # Drawn queries have other weights in sum, so the shares are resampled as well.
    drawn = bootstrap_means(np.column_stack([weighted, share]), n_resamples, random_state)
    means = drawn[:, :-1] / drawn[:, -1:]
    differences = [_difference(values, a, b) * share for a, b in index_pairs]
    tests = [paired_tests(difference, n_resamples, random_state) for difference in differences]
    # Holm's adjustment of each test, over all pairs of systems
    by_test = [holm(p_values) for p_values in zip(*tests, strict=True)]
    adjusted = [PairedTests(*p_values) for p_values in zip(*by_test, strict=True)]
    pairs = []
    for (a, b), difference, raw, corrected in zip(
        index_pairs, differences, tests, adjusted, strict=True
    ):
        low, high = percentile_interval(means[:, b] - means[:, a], confidence)
        significant = bool(corrected.randomisation < 1 - confidence)
        equivalent = bool(-margin < low and high < margin)
        mean = float(difference.mean())
        verdict = _verdict(metric.sign * mean, significant=significant, equivalent=equivalent)
        wins = int((metric.sign * difference > 0).sum())
        losses = int((metric.sign * difference < 0).sum())
        counts = (wins, len(difference) - wins - losses, losses)
        interval = (names[a], names[b], mean, low, high)
        pairs.append(Pair(*interval, *raw, *corrected, *counts, significant, equivalent, verdict))
    systems = [
        System(name, float(weighted[:, c].mean()), *percentile_interval(means[:, c], confidence))
        for c, name in enumerate(names)
    ]
    return systems, pairs


def _verdict(gain: float, *, significant: bool, equivalent: bool) -> str:
    """Return the verdict on the second system of a pair, whose mean is better by ``gain``."""
    if not significant:
        return "equivalent" if equivalent else "undecided"
    verdict = "better" if gain > 0 else "worse"
    # With many queries even a difference that nobody would notice can be proven.
    if equivalent:
        verdict += ", within the margin"
    return verdict


def _difference(values: NDArray[np.float64], a: int, b: int) -> NDArray[np.float64]:
    difference = values[:, b] - values[:, a]
    return np.where(np.abs(difference) > _TIE, difference, 0.0)


def _changed(
    a: ScoredSystem, b: ScoredSystem, values: NDArray[np.float64], queries: Any, depth: int
) -> list[ChangedQuery]:
    """Return queries with different values, with both rankings."""
    return [
        ChangedQuery(
            a.name,
            b.name,
            a.queries.ids[[query]].tolist()[0],
            float(values[query, 0]),
            float(values[query, 1]),
            a.ranking(query, depth),
            b.ranking(query, depth),
            a.text(query),
        )
        for query in queries.tolist()
        if values[query, 0] != values[query, 1]
    ]
