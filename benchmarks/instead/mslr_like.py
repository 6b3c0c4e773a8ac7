"""Dense generated rows of the shape of MSLR: 136 features, five grades, partly not linear."""

from __future__ import annotations

from benchmarks.common.workloads import mslr_like
from benchmarks.instead import presentation
from benchmarks.instead.comparison import compare
from benchmarks.instead.data_files import split, write_parts
from benchmarks.instead.grids import DENSE

TITLE = "Rows of the shape of MSLR (partly not linear)"
SMOKE = {"seeds": [1], "queries": 10, "repetitions": 1, "limit": 10, "most": 1}
QUICK = {"seeds": [1], "queries": 100, "repetitions": 1, "limit": 120, "most": 2}
FULL = {"seeds": [1], "queries": 2000, "repetitions": 3, "limit": 200, "most": 4}


def measure(queries, **options):
    """Compare all learners."""
    return compare(lambda folder: write_parts(folder, split(*mslr_like(queries))), DENSE, **options)


def markdown(results):
    return presentation.markdown(
        results,
        "Generated: 136 features, a quarter of them skewed counts, five grades; of the utility "
        "0.6 parts in 1 come from products of two features, which no linear model can say.",
    )


draw, headline = presentation.draw, presentation.headline
