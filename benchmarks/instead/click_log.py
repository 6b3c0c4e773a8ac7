"""A purchase log: sparse rows among 2^20 hashed features, one purchase a list."""

from __future__ import annotations

from benchmarks.common.workloads import click_lists
from benchmarks.instead import presentation
from benchmarks.instead.comparison import compare
from benchmarks.instead.data_files import split, write_parts
from benchmarks.instead.grids import SPARSE

TITLE = "A purchase log of hashed features"
SMOKE = {"seeds": [1], "lists": 100, "repetitions": 1, "limit": 10, "most": 1}
QUICK = {"seeds": [1], "lists": 2000, "repetitions": 1, "limit": 30, "most": 2}
FULL = {"seeds": [1], "lists": 40_000, "repetitions": 3, "limit": 200, "most": 4}


def measure(lists, **options):
    """Compare all learners."""

    def write_lists(folder):
        data = click_lists(lists, seed=options["seeds"][0])
        return write_parts(folder, split(data.X, data.y, data.qid))

    return compare(write_lists, SPARSE, **options)


def markdown(results):
    return presentation.markdown(
        results,
        "Generated: lists of 5 to 15 items, 20 numbers and 20 hashed categories a row (40 "
        "non-zeros among 2^20 features), one purchase a list.",
    )


draw, headline = presentation.draw, presentation.headline
