"""The first fold of the first LETOR folder found."""

from __future__ import annotations

import numpy as np

from benchmarks.instead import telling
from benchmarks.instead.comparison import compare
from benchmarks.instead.grids import DENSE
from benchmarks.instead.rows import write_parts
from benchmarks.real_data import letor_folders

TITLE = "A real LETOR fold"
QUICK = {"seeds": [1], "repetitions": 1, "limit": 120, "most": 2}
FULL = {"seeds": [1], "repetitions": 3, "limit": 200, "most": 4}


def measure(**options):
    """All learners."""
    folder = letor_folders(dense=True)[0][0]

    def write_fold(place):
        parts = [(d.X.astype("float32"), d.y, numbered(d.qid)) for d in next(folder.folds())[1:]]
        return write_parts(place, parts)

    return {"name": folder.name, **compare(write_fold, DENSE, **options)}


def numbered(qid):
    """0 for the rows of the first query, 1 for those of the next, ..."""
    return np.cumsum(np.r_[False, qid[1:] != qid[:-1]])


def words(results):
    return telling.words(results, f"Fold 1 of {results['name']}, as distributed.")


draw, headline = telling.draw, telling.headline
