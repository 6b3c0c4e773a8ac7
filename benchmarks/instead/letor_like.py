"""Dense generated rows of the shape of LETOR: 64 features, three grades, few relevant."""

from __future__ import annotations

from benchmarks.common.workloads import letor_like
from benchmarks.instead import presentation
from benchmarks.instead.comparison import compare
from benchmarks.instead.data_files import split, write_parts
from benchmarks.instead.grids import DENSE

TITLE = "Rows of the shape of LETOR (linear)"
SMOKE = {"seeds": [1], "queries": 10, "repetitions": 1, "limit": 10, "most": 1}
QUICK = {"seeds": [1], "queries": 50, "repetitions": 1, "limit": 120, "most": 2}
FULL = {"seeds": [1], "queries": 125, "repetitions": 3, "limit": 200, "most": 4}


def measure(queries, **options):
    """Compare all learners."""
    return compare(
        lambda folder: write_parts(folder, split(*letor_like(queries))), DENSE, **options
    )


def markdown(results):
    return presentation.markdown(
        results,
        "Generated: 64 features between 0 and 1 in each query, three grades, 1.6 % relevant, a "
        "utility that is linear before the scaling.",
    )


draw, headline = presentation.draw, presentation.headline
