"""The first fold of the first LETOR folder found."""

from __future__ import annotations

import numpy as np

from benchmarks.common.real_data import letor_folders
from benchmarks.instead import presentation
from benchmarks.instead.comparison import compare
from benchmarks.instead.data_files import write_parts
from benchmarks.instead.grids import DENSE

TITLE = "A real LETOR fold"
SMOKE = {"seeds": [1], "repetitions": 1, "limit": 10, "most": 1}
QUICK = {"seeds": [1], "repetitions": 1, "limit": 120, "most": 2}
FULL = {"seeds": [1], "repetitions": 3, "limit": 200, "most": 4}


def measure(**options):
    """Compare all learners."""
    folder = letor_folders(dense=True)[0][0]

    def write_fold(place):
        parts = [(d.X.astype("float32"), d.y, numbered(d.qid)) for d in next(folder.folds())[1:]]
        return write_parts(place, parts)

    return {"name": folder.name, **compare(write_fold, DENSE, **options)}


def numbered(qid):
    """Number the queries 0, 1, 2, ... in the order of the rows."""
    return np.cumsum(np.r_[False, qid[1:] != qid[:-1]])


def markdown(results):
    return presentation.markdown(results, f"Fold 1 of {results['name']}, as distributed.")


draw, headline = presentation.draw, presentation.headline
