"""``AdditiveRanker.edit``: fixed entries, solved again exactly, recorded and kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.exceptions import NotFittedError

from rankine import AdditiveRanker, LinearModel
from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.model.shapes import certify
from rankine.model.tables import bin_centres

pytestmark = pytest.mark.filterwarnings("ignore:the range:UserWarning")


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:, 3] = rng.integers(0, 4, n)
    Z = np.nan_to_num(X)
    value = np.sin(2 * Z[:, 0]) + Z[:, 1] * Z[:, 2] + Z[:, 2] + (Z[:, 3] == 2)
    y = np.digitize(value + 0.3 * rng.normal(size=n), [-1, 0, 1])
    return X, y, np.repeat(np.arange(n // 10), 10)


X, Y, QID = rows()
EDIT = {0: {(-0.5, 0.5): 0.1}, 3: {2.0: 0.0}, 1: {None: 0.3}}


def fitted(**options):
    options = {"bins": 8, "smooth": 0.5, "pairs": 2, "categorical": [3], **options}
    return AdditiveRanker(**options).fit(X, Y, qid=QID)


def entries(ranker, column):
    """Return the curve of a column as the model stores it."""
    cells = np.cumsum([0, *ranker.bins_.n_cells])
    return ranker.coef_[cells[column] : cells[column + 1]]


def one_hot_problem(ranker):
    """Return objective with gradient, the tables of parameters and the means of the tables.

    Written down anew from the docs: a parameter for each cell and a slope for each column.
    """
    bins, strengths = ranker.bins_, ranker.strengths_
    blocks, means, penalties = [], [], []
    offsets = np.cumsum([0, *bins.n_cells])
    centres = bin_centres(bins)
    for j, cuts in enumerate(bins.cuts):
        size = len(cuts) + 2
        cells = np.searchsorted(cuts, X[:, j], side="right")
        if j in bins.unordered:
            cells = np.array([cuts.index(x) if x in cuts else len(cuts) for x in X[:, j]])
        cells[np.isnan(X[:, j])] = size - 1
        block = np.eye(size)[cells]
        m = centres[offsets[j] : offsets[j + 1]].copy()
        if j in bins.unordered:
            m[:] = 0.0
        else:
            weight = block.sum(axis=0)[:-1]
            m[:-1] -= weight @ m[:-1] / weight.sum()
            m[:-1] /= np.sqrt(weight @ m[:-1] ** 2 / weight.sum())
        blocks.append(block)
        means.append(m)
        K = strengths.ridge * strengths.smooth * np.eye(size)
        if j not in bins.unordered:
            for c in range(size - 2):
                d = np.zeros(size)
                d[c], d[c + 1] = 1.0, -1.0
                K += strengths.smooth * max(size - 2, 1) * np.outer(d, d)
        penalties.append(K)
    n_cells = offsets[-1]
    to_tables = np.zeros((n_cells, n_cells + len(means)))
    to_tables[:, :n_cells] = np.eye(n_cells)
    K = np.zeros((n_cells + len(means),) * 2)
    for j, (a, b) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        to_tables[a:b, n_cells + j] = means[j]
        K[a:b, a:b] = penalties[j]
        K[n_cells + j, n_cells + j] = strengths.anchor
    design = np.hstack(blocks)
    first, second = np.nonzero((QID[:, None] == QID) & (Y[:, None] > Y))
    weight = 1.0 / np.bincount(QID[first])[QID[first]]
    D = (design[first] - design[second]) @ to_tables

    def objective(theta):
        short = np.maximum(0.0, 1.0 - D @ theta)
        value = weight @ short**2 + theta @ K @ theta / 2
        return value, -2.0 * D.T @ (weight * short) + K @ theta

    averages = np.zeros((n_cells, n_cells))
    for a, b in zip(offsets[:-1], offsets[1:], strict=True):
        averages[a:b, a:b] = design[:, a:b].mean(axis=0)
    return objective, to_tables, averages


def test_an_edit_is_the_optimum_of_the_one_hot_problem():
    ranker = fitted(pairs=0, tol=1e-10).edit(EDIT, X, Y, qid=QID)
    objective, to_tables, averages = one_hot_problem(ranker)
    centred = (np.eye(len(averages)) - averages) @ to_tables
    cells = np.cumsum([0, *ranker.bins_.n_cells])
    low, high = np.searchsorted(ranker.bins_.cuts[0], [-0.5, 0.5])
    fixed = dict.fromkeys(range(low, high + 1), 0.1)
    fixed |= {cells[3] + 2: 0.0, cells[2] - 1: 0.3}
    C, v = centred[list(fixed)], np.array([*fixed.values()])
    basis, offset = np.linalg.svd(C)[2][len(C) :].T, np.linalg.lstsq(C, v)[0]

    def reduced(u):
        value, gradient = objective(offset + basis @ u)
        return value, basis.T @ gradient

    best = minimize(
        reduced, np.zeros(basis.shape[1]), jac=True, method="BFGS",
        options={"gtol": 1e-8, "maxiter": 5000},
    )  # fmt: skip
    assert ranker.solution_.objective == pytest.approx(best.fun, rel=1e-8)
    seen = averages[np.arange(len(averages)), np.arange(len(averages))] > 0
    reference = centred @ (offset + basis @ best.x)
    np.testing.assert_allclose(ranker.coef_[seen], reference[seen], atol=1e-4)
    certificate = ranker.solution_.certificate
    assert certificate["lower_bound"] <= best.fun * (1 + 1e-9)
    assert certificate["relative_gap"] <= 1e-10


@pytest.mark.parametrize("options", [{}, {"loss": "softmax"}, {"smooth": None}, {"reweight": 1}])
def test_fixed_entries_hold_to_the_last_bit_and_are_recorded(options):
    ranker = fitted(**options)
    before = ranker.coef_.copy()
    assert ranker.edits_ == []
    same = ranker.edit(EDIT, X, Y, qid=QID, eval_set=(X, Y), eval_qid=QID, by="Anna", note="why")
    assert same is ranker
    assert entries(ranker, 3)[2] == 0.0
    assert entries(ranker, 1)[-1] == 0.3
    assert (entries(ranker, 0) == 0.1).sum() >= 2
    assert not np.array_equal(before, ranker.coef_)
    (edit,) = ranker.edits_
    assert (edit["by"], edit["note"], edit["metric"]) == ("Anna", "why", "ndcg@10")
    assert edit["objective_after"] > edit["objective_before"] - edit["gap"]
    assert edit["metric_after"] == pytest.approx(ranker.score(X, Y, qid=QID))
    assert [record["value"] for record in ranker.evals_] == [
        edit["metric_before"],
        edit["metric_after"],
    ]
    model = LinearModel.from_bytes(ranker.to_model().to_bytes())
    assert model.provenance["edits"] == ranker.edits_
    # A constant of a curve changes no order, and the mean of the others is still 0.
    assert abs(entries(ranker, 2)[:-1].mean()) < 1.0


def test_the_bits_do_not_depend_on_threads():
    one, two = (fitted(n_threads=n).edit(EDIT, X, Y, qid=QID) for n in (1, 2))
    assert one.to_model().digest == two.to_model().digest


def test_edits_add_up_and_are_freed():
    ranker = fitted(tol=1e-8)
    before = ranker.coef_.copy()
    ranker.edit({0: {(0, 0): 0.1}}, X, Y, qid=QID).edit({3: {2: 0.2}}, X, Y, qid=QID)
    assert entries(ranker, 3)[2] == 0.2
    assert 0.1 in entries(ranker, 0)
    ranker.edit({0: {(0, 0): None}, 3: {2: None}}, X, Y, qid=QID)
    np.testing.assert_allclose(ranker.coef_, before, atol=5e-3)
    assert len(ranker.edits_) == 3


@pytest.mark.parametrize("as_model", [False, True])
def test_a_warm_start_keeps_fixed_entries(as_model):
    ranker = fitted().edit(EDIT, X, Y, qid=QID)
    other_X, other_y, other_qid = rows(seed=1)
    options = {}
    if as_model:
        options = {"coef_init": LinearModel.from_bytes(ranker.to_model().to_bytes())}
        ranker = AdditiveRanker(bins=8, smooth=0.5, pairs=2, categorical=[3])
    ranker.set_params(warm_start=not as_model, smooth=1.0)
    ranker.fit(other_X, other_y, qid=other_qid, **options)
    assert entries(ranker, 1)[-1] == 0.3
    assert entries(ranker, 3)[2] == 0.0
    assert len(ranker.edits_) == 1
    ranker.set_params(warm_start=False).fit(other_X, other_y, qid=other_qid)
    assert ranker.edits_ == []


def test_a_model_is_edited_by_a_new_ranker():
    ranker = fitted()
    again = AdditiveRanker(bins=8, smooth=0.5, pairs=2, categorical=[3])
    again.edit(EDIT, X, Y, qid=QID, coef_init=ranker.to_model())
    ranker.edit(EDIT, X, Y, qid=QID)
    np.testing.assert_allclose(again.coef_, ranker.coef_, atol=0.05)
    assert again.edits_[0]["fixed"] == ranker.edits_[0]["fixed"]


def test_fixed_entries_have_no_interval():
    ranker = fitted(tol=1e-4).edit(EDIT, X, Y, qid=QID)
    ranker.set_params(warm_start=True).fit(X, Y, qid=QID, intervals=True)
    table = ranker.intervals().to_pydict()
    assert not {0.1, 0.3} & set(table["estimate"])
    assert min(np.array(table["high"]) - np.array(table["low"])) > 1e-4


@pytest.mark.parametrize("shape", ["increasing", "decreasing", "convex", "concave"])
def test_shapes_and_fixed_entries_hold_together(shape):
    ranker = fitted(pairs=0, shapes={0: shape}).edit({0: {(0, 0): 0.05}}, X, Y, qid=QID)
    assert 0.05 in entries(ranker, 0)
    assert all(proof.holds for proof in certify(ranker.to_model()))
    assert np.float32(0.05) in entries(ranker, 0).astype(np.float32)


def test_a_shape_that_contradicts_is_named():
    ranker = fitted(pairs=0, shapes={0: "increasing"})
    before = dict(ranker.__dict__)
    with pytest.raises(ParameterError, match="increasing") as caught:
        ranker.edit({0: {(-1, -1): 0.2, (1, 1): 0.1}}, X, Y, qid=QID)
    assert caught.value.parameter == "fixed"
    assert ranker.__dict__ == before
    paired = fitted(pairs=[(0, 1)], shapes={0: "increasing"})
    with pytest.raises(ParameterError, match="in a pair") as caught:
        paired.edit({0: {(0, 0): 0.1}}, X, Y, qid=QID)
    assert caught.value.parameter == "fixed"


@pytest.mark.parametrize(
    ("fixed", "error"),
    [
        ({9: {(0, 1): 0.1}}, ParameterError),
        ({0: {"a": 0.1}}, ParameterError),
        ({0: {(1, 0): 0.1}}, ParameterError),
        ({0: {(0, 1): np.nan}}, ParameterError),
        ({0: {(0, 1): "x"}}, ParameterError),
        ({0: {(0, 1): 0.1, (0.5, 2): 0.2}}, ParameterError),
        ({3: {(0, 1): 0.1}}, ParameterError),
        ({3: {17: 0.1}}, FeatureMismatchError),
        ({}, ParameterError),
        ("price=1", ParameterError),
        ([{"column": 0, "value": 1.0, "free": True}], ParameterError),
    ],
)
def test_wrong_entries_leave_the_ranker_as_it_was(fixed, error):
    ranker = fitted()
    before = dict(ranker.__dict__)
    with pytest.raises(error) as caught:
        ranker.edit(fixed, X, Y, qid=QID)
    assert caught.value.parameter == "fixed"
    assert ranker.__dict__ == before


def test_an_edit_needs_a_fit_or_a_model():
    with pytest.raises(NotFittedError):
        AdditiveRanker().edit(EDIT, X, Y, qid=QID)
    with pytest.raises(ParameterError) as caught:
        fitted().edit(EDIT, X, Y, qid=QID, by="")
    assert caught.value.parameter == "by"


def test_a_range_that_cuts_bins_says_what_is_edited():
    with pytest.warns(UserWarning, match="cuts bins"):
        fitted().edit(EDIT, X, Y, qid=QID)


@given(
    seed=st.integers(0, 50),
    ends=st.tuples(st.floats(-2, 2), st.floats(-2, 2)),
    value=st.floats(-2, 2),
    pairs=st.integers(0, 3),
)
@settings(max_examples=15, deadline=None)
def test_any_range_is_fixed_and_certified(seed, ends, value, pairs):
    low, high = sorted(ends)
    ranker = AdditiveRanker(bins=8, smooth=0.5, pairs=pairs, categorical=[3])
    data, labels, qid = rows(200, seed)
    ranker.fit(data, labels, qid=qid).edit({0: {(low, high): value}}, data, labels, qid=qid)
    inside = (data[:, 0] >= low) & (data[:, 0] < high)
    tables = entries(ranker, 0)[np.searchsorted(ranker.bins_.cuts[0], data[inside, 0], "right")]
    assert (tables == value).all()
    assert ranker.solution_.certificate["relative_gap"] <= ranker.tol
