"""Read an npz file that rankine wrote, with numpy alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from rankine.data import Dataset

_ROLES = ("docid", "weight", "position", "feature_names")
_MATRIX = ("X", "data", "indices", "indptr", "shape")


def load_npz(path: Path) -> Dataset:
    """Load the arrays of a file and make a dataset of them."""
    with np.load(path) as file:
        arrays = dict(file)
    if "X" in arrays:
        X = arrays["X"]
    else:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        X = sparse.csr_matrix(parts, shape=tuple(arrays["shape"]))
    roles = {name: arrays[name] for name in _ROLES if name in arrays}
    further = {
        name: values
        for name, values in arrays.items()
        if name not in (*_MATRIX, *_ROLES, "y", "qid")
    }
    return Dataset.from_arrays(X, arrays["y"], arrays["qid"], columns=further, **roles)
