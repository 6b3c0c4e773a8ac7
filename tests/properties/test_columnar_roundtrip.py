"""Any data set survives any chain of formats, to the bit."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import rankine
from properties.strategies import datasets, names
from rankine.data import Dataset

FORMATS = ("txt", "parquet", "arrow", "arrows")


@settings(max_examples=30, deadline=None)
@given(datasets(), st.lists(st.sampled_from(FORMATS), min_size=1, max_size=4), st.data())
def test_chains_of_formats(data, chain, choose):
    dtype = data.X.dtype.name
    current = data
    with tempfile.TemporaryDirectory() as folder:
        for k, suffix in enumerate(chain):
            layouts = (None, "sparse", "columns")
            layout = None if suffix == "txt" else choose.draw(st.sampled_from(layouts))
            path = Path(folder) / f"{k}.{suffix}"
            current.save(path, **({} if layout is None else {"layout": layout}))
            current = rankine.load(path, n_features=data.n_features, dtype=dtype)
            assert current.X.dtype == data.X.dtype
            assert current.fingerprint == data.fingerprint
    np.testing.assert_array_equal(current.y, data.y)
    np.testing.assert_array_equal(current.qid, data.qid)


@settings(max_examples=20, deadline=None)
@given(st.lists(names, min_size=1, max_size=6, unique=True), st.sampled_from(FORMATS[1:]))
def test_any_feature_name_survives(found, suffix):
    taken = {"label", "qid", "indices", "values"}
    chosen = [name for name in found if name not in taken] or ["a"]
    data = Dataset.from_arrays(np.eye(len(chosen)), np.arange(len(chosen)), feature_names=chosen)
    with tempfile.TemporaryDirectory() as folder:
        for layout in ("sparse", "columns"):
            path = Path(folder) / f"data.{suffix}"
            data.save(path, layout=layout)
            back = rankine.load(path)
            assert back.feature_names == tuple(chosen)
            assert back.fingerprint == data.fingerprint
