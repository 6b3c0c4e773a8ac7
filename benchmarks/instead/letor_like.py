"""Dense generated rows of the shape of LETOR: 64 features, three grades, few relevant."""

from __future__ import annotations

from benchmarks.instead import telling
from benchmarks.instead.comparison import compare
from benchmarks.instead.grids import DENSE
from benchmarks.instead.rows import split, write_parts
from benchmarks.workloads import letor_like

TITLE = "Rows of the shape of LETOR (linear)"
QUICK = {"seeds": [1], "queries": 50, "repetitions": 1, "limit": 120, "most": 2}
FULL = {"seeds": [1], "queries": 125, "repetitions": 3, "limit": 200, "most": 4}


def measure(queries, **options):
    """All learners."""
    return compare(
        lambda folder: write_parts(folder, split(*letor_like(queries))), DENSE, **options
    )


def words(results):
    return telling.words(
        results,
        "Generated: 64 features between 0 and 1 in each query, three grades, 1.6 % relevant, a "
        "utility that is linear before the scaling.",
    )


draw, headline = telling.draw, telling.headline
