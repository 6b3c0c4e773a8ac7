"""Legal but unusual matrices: the same weights and scores as from plain ones, everywhere.

Duplicates, unsorted indices, explicit zeros, 64-bit and unsigned indices, other byte orders,
read-only, strided and Fortran arrays, in every way to fit, predict, score and serve.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from rankine import Dataset, Scorer
from rankine.core.errors import RankineError
from rankine.rankers.registry import RANKERS, ranker_class

# Kernels are compiled for every storage of the matrices in a first run.
pytestmark = pytest.mark.timeout(900)
rng = np.random.default_rng(0)
N_ROWS = 48
#: Halves, so that a value that is stored in two parts is exact.
DENSE = rng.integers(-8, 9, (N_ROWS, 5)) / 2 * (rng.random((N_ROWS, 5)) < 0.7)
Y = rng.integers(0, 3, N_ROWS)
QID = np.arange(N_ROWS) // 6
OPTIONS = {
    "spd": {"n_steps": 200},
    "ranksvm": {"l2": 0.1, "tol": 1e-8},
    "least-squares": {"l2": 0.1, "tol": 1e-9},
    "domination": {"l1": 1.0, "tol": 1e-9},
    "elastic": {"n_passes": 2},
    "additive": {"smooth": 1.0, "pairs": 1, "bins": 4, "tol": 1e-9, "max_iter": 500},
}


def strided():
    wide = np.zeros((N_ROWS, 10))
    wide[:, ::2] = DENSE
    return wide[:, ::2]


def read_only(X):
    X = X.copy()
    parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
    for part in parts:
        part.flags.writeable = False
    return X


def changed(X, **arrays):
    """Return a sparse matrix with other arrays, set past scipy's constructor."""
    X = X.copy()
    for name, values in arrays.items():
        setattr(X, name, values)
    return X


def with_duplicates(kind=sparse.csr_array):
    """Store every value as two halves."""
    X = kind(DENSE)
    ends = 2 * X.indptr
    return kind((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), ends), shape=X.shape)


def unsorted():
    X = sparse.csr_array(DENSE)
    for start, stop in zip(X.indptr, X.indptr[1:], strict=False):
        X.indices[start:stop] = X.indices[start:stop][::-1].copy()
        X.data[start:stop] = X.data[start:stop][::-1].copy()
    return X


def with_zeros():
    """Store every zero."""
    columns = np.tile(np.arange(5), N_ROWS)
    return sparse.csr_array((DENSE.ravel(), columns, 5 * np.arange(N_ROWS + 1)), shape=DENSE.shape)


CSR = sparse.csr_array(DENSE)
MATRICES = {
    "strided": strided,
    "fortran": lambda: np.asfortranarray(DENSE),
    "read-only": lambda: read_only(DENSE),
    "other byte order": lambda: DENSE.astype(">f8"),
    "duplicates": with_duplicates,
    "duplicates by columns": lambda: with_duplicates(sparse.csc_array),
    "unsorted": unsorted,
    "explicit zeros": with_zeros,
    "64-bit indices": lambda: changed(
        CSR, indices=CSR.indices.astype("i8"), indptr=CSR.indptr.astype("i8")
    ),
    "mixed indices": lambda: changed(CSR, indptr=CSR.indptr.astype("i8")),
    "unsigned indices": lambda: changed(CSR, indices=CSR.indices.astype("u4")),
    "indices in another byte order": lambda: changed(
        CSR, indices=CSR.indices.astype(">i4"), indptr=CSR.indptr.astype(">i4")
    ),
    "values in another byte order": lambda: changed(CSR, data=CSR.data.astype(">f8")),
    "room for more": lambda: changed(
        CSR, data=np.r_[CSR.data, 9.0, 9.0], indices=np.r_[CSR.indices, 0, 0].astype("i4")
    ),
    "read-only csr": lambda: read_only(CSR),
    "csr_matrix": lambda: sparse.csr_matrix(DENSE),
    "csc": lambda: sparse.csc_array(DENSE),
    "coo": lambda: sparse.coo_array(DENSE),
    "bsr": lambda: sparse.bsr_array(DENSE),
    "lil": lambda: sparse.lil_array(DENSE),
}


def make(name, scale):
    return ranker_class(name)(random_state=0, scale=scale, **OPTIONS[name])


@pytest.mark.parametrize(
    "scale",
    ["none", "query", *(pytest.param(s, marks=pytest.mark.full) for s in ("auto", "standard"))],
)
@pytest.mark.parametrize("name", RANKERS)
def test_unusual_matrices_change_nothing(name, scale):
    if name == "additive" and scale not in ("none", "auto"):
        pytest.skip("tables leave columns as they are")
    plain = {
        kind: make(name, scale).fit(X, Y, qid=QID) for kind, X in (("dense", DENSE), ("csr", CSR))
    }
    for title, matrix in MATRICES.items():
        X = matrix()
        usual = plain["csr" if sparse.issparse(X) else "dense"]
        fits = {
            "fit": make(name, scale).fit(X, Y, qid=QID),
            "from_arrays": make(name, scale).fit(Dataset.from_arrays(matrix(), Y, QID)),
            "Dataset": make(name, scale).fit(Dataset(matrix(), Y, QID)),
        }
        for way, ranker in fits.items():
            # Sums over more stored values are added in another order, and exact solvers then stop
            # elsewhere within tol.
            np.testing.assert_allclose(
                ranker.coef_, usual.coef_, rtol=1e-3, atol=1e-5, err_msg=f"{way}, {title}"
            )
        expected = usual.predict(DENSE, qid=QID)
        sizes = np.bincount(QID)
        scores = {
            "predict": usual.predict(matrix(), qid=QID),
            "predict a Dataset": usual.predict(Dataset(matrix(), Y, QID)),
            "Scorer": Scorer(usual.to_model()).score(matrix(), group=sizes),
        }
        for way, values in scores.items():
            np.testing.assert_allclose(
                values, expected, rtol=1e-9, atol=1e-9, err_msg=f"{way}, {title}"
            )
        value = usual.score(DENSE, Y, qid=QID)
        assert usual.score(matrix(), Y, qid=QID) == pytest.approx(value, abs=1e-9)
        assert usual.score(Dataset(matrix(), Y, QID)) == pytest.approx(value, abs=1e-9)


def broken():
    """Return matrices with one array that does not fit."""
    for kind in (sparse.csr_array, sparse.csc_array, sparse.bsr_array):
        X = kind(DENSE)
        far = X.indices.copy()
        far[3] = 2**30
        back = X.indptr.copy()
        back[1] = 2**31 - 1
        yield f"{kind.__name__}, index", changed(X, indices=far)
        yield f"{kind.__name__}, offset", changed(X, indptr=back)
        yield f"{kind.__name__}, short", changed(X, data=X.data[:2])
        yield f"{kind.__name__}, negative", changed(X, indices=-far)
        yield f"{kind.__name__}, two dimensions", changed(X, indices=X.indices[None])
    coo = sparse.coo_array(DENSE)
    coo.coords = (coo.coords[0], coo.coords[1] + 2**30)
    yield "coo, index", coo


@pytest.mark.parametrize("name", RANKERS)
def test_broken_matrices_are_refused_by_everything(name):
    ranker = make(name, "none").fit(DENSE, Y, qid=QID)
    scorer = Scorer(ranker.to_model())
    for title, X in broken():
        calls = (
            lambda X=X: make(name, "none").fit(X, Y, qid=QID),
            lambda X=X: ranker.predict(X, qid=QID),
            lambda X=X: ranker.score(X, Y, qid=QID),
            lambda X=X: scorer.score(X),
            lambda X=X: Dataset.from_arrays(X, Y, QID),
            lambda X=X: Dataset(X, Y, QID),
        )
        for call in calls:
            with pytest.raises(RankineError, match=r"broken|do not fit"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call()
                pytest.fail(title)


@pytest.mark.parametrize(
    "group",
    [[2**62] * 4 + [N_ROWS], np.array([2**64 - N_ROWS, 2 * N_ROWS], dtype=np.uint64), [-1, 49]],
    ids=str,
)
def test_sums_of_sizes_do_not_wrap(group):
    ranker = make("ranksvm", "query").fit(DENSE, Y, qid=QID)
    for call in (
        lambda: make("ranksvm", "none").fit(DENSE, Y, group=group),
        lambda: Dataset.from_arrays(DENSE, Y, group=group),
        lambda: ranker.predict(DENSE, group=group),
        lambda: Scorer(ranker.to_model()).score(DENSE, group=group),
        lambda: Scorer(make("ranksvm", "none").fit(DENSE, Y, qid=QID).to_model()).score(
            DENSE, group=group
        ),
    ):
        with pytest.raises(RankineError, match="group"):
            call()
