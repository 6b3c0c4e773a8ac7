"""What holds of every scaling: scaled rows and folded weights give the same ranking function."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from rankine.data import Dataset
from rankine.transforms.scaling import Scaling, fit_scaling

pytestmark = pytest.mark.kernels

matrices = hnp.arrays(
    np.float64, st.tuples(st.integers(2, 10), st.integers(1, 4)),
    elements=st.floats(-100, 100).map(lambda x: round(x, 2)),
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(matrices)
def test_query_scaling_keeps_zeros_and_bounds_ranges(X):
    qid = np.arange(len(X)) // 3
    data = Dataset.from_arrays(X, np.zeros(len(X)), qid)
    scaled = np.asarray(Scaling("query").apply(data).X)
    assert np.isfinite(scaled).all()
    for q in set(qid.tolist()):
        before, after = X[qid == q], scaled[qid == q]
        spans = np.ptp(before, axis=0)
        np.testing.assert_allclose(np.ptp(after, axis=0), (spans > 0).astype(float), atol=1e-9)
        assert (after[before == 0] == 0).all()
        for j in np.flatnonzero(spans > 0):
            np.testing.assert_array_equal(np.argsort(before[:, j], kind="stable"),
                                          np.argsort(after[:, j], kind="stable"))  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(matrices, st.sampled_from((1e-3, 0.5, 7.0, 1e6)))
def test_query_scaling_does_not_see_the_unit_of_a_feature(X, unit):
    qid = np.arange(len(X)) // 4
    once = Scaling("query").apply(Dataset.from_arrays(X, np.zeros(len(X)), qid)).X
    again = Scaling("query").apply(Dataset.from_arrays(X * unit, np.zeros(len(X)), qid)).X
    np.testing.assert_allclose(np.asarray(once), np.asarray(again), atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(matrices, st.sampled_from(("standard", "maxabs")))
def test_global_scaling_is_the_formula_for_every_storage(X, kind):
    X = np.where(np.arange(X.size).reshape(X.shape) % 3 == 0, 0.0, X)
    spread = X.std(axis=0) if kind == "standard" else np.abs(X).max(axis=0)
    largest = np.abs(X).max(axis=0)
    flat = spread <= 1e-12 * largest if kind == "standard" else largest == 0
    expected = np.where(flat, np.where(largest > 0, largest, 1.0), spread)
    for stored in (X, sparse.csr_array(X)):
        scaling = fit_scaling(kind, Dataset.from_arrays(stored, np.zeros(len(X))))
        np.testing.assert_allclose(scaling.factors, 1.0 / expected, rtol=1e-6)
