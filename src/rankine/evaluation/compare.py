"""Whether one ranking is really better than another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DataError, ParameterError
from rankine.data.dataset import Dataset
from rankine.evaluation.comparison import Changed, Comparison, Pair, System
from rankine.evaluation.contestants import Contestant, gather_contestants, read_judged
from rankine.evaluation.resampling import bootstrap_means, percentile_interval
from rankine.evaluation.significance import PairedTests, holm, paired_tests
from rankine.evaluation.trec_files import Qrels
from rankine.metrics import Metric, parse_metric

__all__ = ["compare", "compare_contestants", "compare_values"]

#: Differences below this are ties: rounding of sums in another order.
_EQUAL = 1e-12


def compare(
    systems: Sequence[Any] | Mapping[str, Any],
    data: Any,
    metric: str | Metric = "ndcg@10",
    *,
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
    judged = data if isinstance(data, (Dataset, Qrels)) else read_judged(data, **options)
    contestants = gather_contestants(systems, judged)
    return compare_contestants(
        contestants,
        parse_metric(metric),
        confidence=confidence,
        margin=margin,
        n_resamples=n_resamples,
        random_state=random_state,
        n_changed=n_changed,
        depth=depth,
    )


def compare_contestants(
    contestants: Sequence[Contestant],
    metric: Metric,
    *,
    confidence: float,
    margin: float,
    n_resamples: int,
    random_state: int,
    n_changed: int,
    depth: int,
) -> Comparison:
    """Compare what has been read and scored already."""
    _check(contestants, confidence, margin, n_resamples)
    columns = np.column_stack([c.values(metric) for c in contestants])
    kept = np.flatnonzero(~np.isnan(columns).any(axis=1))
    values = columns[kept]
    if len(values) < 2:
        raise DataError(
            f"{len(values)} queries have a value of {metric}",
            fix="Compare on two queries at least; a handful shows nothing",
        )
    places = list(combinations(range(len(contestants)), 2))
    names = [c.name for c in contestants]
    systems, pairs = compare_values(
        names, values, metric, places, confidence, margin, n_resamples, random_state
    )
    ids = contestants[0].queries.ids
    changed = [
        change
        for a, b in places
        for change in _changed(contestants, columns, kept, a, b, n_changed, depth)
    ]
    return Comparison(
        metric, systems, pairs, changed, ids[kept], values, len(ids) - len(kept), confidence,
        margin, n_resamples,
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
) -> tuple[list[System], list[Pair]]:
    """Means of the columns of ``values`` (one row per query), and the pairs (a, b) of them."""
    means = bootstrap_means(values, n_resamples, random_state)
    sign = 1.0 if metric.larger_is_better else -1.0
    tests = [paired_tests(_difference(values, a, b), n_resamples, random_state) for a, b in places]
    adjusted = [PairedTests(*each) for each in zip(*(holm(p) for p in zip(*tests, strict=True)),
                                                   strict=True)]  # fmt: skip
    pairs = []
    for (a, b), raw, corrected in zip(places, tests, adjusted, strict=True):
        low, high = percentile_interval(means[:, b] - means[:, a], confidence)
        difference = _difference(values, a, b)
        pairs.append(
            _pair(names[a], names[b], difference, low, high, raw, corrected, sign, confidence,
                  margin)
        )  # fmt: skip
    systems = [
        System(name, float(values[:, c].mean()), *percentile_interval(means[:, c], confidence))
        for c, name in enumerate(names)
    ]
    return systems, pairs


def _check(
    contestants: Sequence[Contestant], confidence: float, margin: float, n_resamples: int
) -> None:
    if len(contestants) < 2:
        raise ParameterError("there is only one system", fix="Give two or more to compare")
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence={confidence} is not in (0, 1)", fix="Use 0.95, say")
    if margin < 0:
        raise ParameterError(f"margin={margin} is negative", fix="Use 0.01, say")
    if n_resamples < 100:
        raise ParameterError(f"n_resamples={n_resamples} is too few", fix="Use 10000, say")


def _difference(values: NDArray[np.float64], a: int, b: int) -> NDArray[np.float64]:
    found = values[:, b] - values[:, a]
    return np.where(np.abs(found) > _EQUAL, found, 0.0)


def _pair(
    a: str,
    b: str,
    difference: NDArray[np.float64],
    low: float,
    high: float,
    raw: PairedTests,
    adjusted: PairedTests,
    sign: float,
    confidence: float,
    margin: float,
) -> Pair:
    mean = float(difference.mean())
    significant = adjusted.randomisation < 1 - confidence
    equivalent = -margin < low and high < margin
    if significant:
        verdict = "better" if sign * mean > 0 else "worse"
        if equivalent:
            verdict += ", within the margin"
    else:
        verdict = "equivalent" if equivalent else "undecided"
    return Pair(
        a,
        b,
        mean,
        low,
        high,
        *raw,
        *adjusted,
        wins=int((sign * difference > 0).sum()),
        ties=int((difference == 0).sum()),
        losses=int((sign * difference < 0).sum()),
        significant=bool(significant),
        equivalent=bool(equivalent),
        verdict=verdict,
    )


def _changed(
    contestants: Sequence[Contestant],
    values: NDArray[np.float64],
    kept: NDArray[np.int64],
    a: int,
    b: int,
    count: int,
    depth: int,
) -> list[Changed]:
    size = np.abs(_difference(values, a, b)[kept])
    largest = kept[np.argsort(-size, kind="stable")[:count]]
    one, other = contestants[a], contestants[b]
    return [
        Changed(
            one.name,
            other.name,
            one.queries.ids[query].item(),
            float(values[query, a]),
            float(values[query, b]),
            one.ranking(query, depth),
            other.ranking(query, depth),
        )
        for query in largest.tolist()
        if values[query, a] != values[query, b]
    ]
