"""A purchase log: sparse rows among 2^20 hashed features, one purchase a list."""

from __future__ import annotations

from benchmarks.instead import telling
from benchmarks.instead.comparison import compare
from benchmarks.instead.grids import SPARSE
from benchmarks.instead.rows import split, write_parts
from benchmarks.workloads import click_lists

TITLE = "A purchase log of hashed features"
QUICK = {"seeds": [1], "lists": 2000, "repetitions": 1, "limit": 30, "most": 2}
FULL = {"seeds": [1], "lists": 40_000, "repetitions": 3, "limit": 200, "most": 4}


def measure(lists, **options):
    """All learners."""

    def write_lists(folder):
        data = click_lists(lists, seed=options["seeds"][0])
        return write_parts(folder, split(data.X, data.y, data.qid))

    return compare(write_lists, SPARSE, **options)


def words(results):
    return telling.words(
        results,
        "Generated: lists of 5 to 15 items, 20 numbers and 20 hashed categories a row (40 "
        "non-zeros among 2^20 features), one purchase a list.",
    )


draw, headline = telling.draw, telling.headline
