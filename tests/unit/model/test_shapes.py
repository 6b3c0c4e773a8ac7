"""Proofs of shapes over all cells of a model."""

import itertools

import numpy as np
import pytest

from rankine import AdditiveRanker, LinearModel, ParameterError
from rankine.model.shapes import SHAPES, certify
from rankine.model.tables import find_tables

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4))
X[::7, 1] = np.nan
X[:, 3] = RNG.integers(0, 3, 600)
Z = np.nan_to_num(X)
Y = np.digitize(Z[:, 0] * Z[:, 1] + Z[:, 2] + Z[:, 0], [-1, 0, 1])
QID = np.repeat(np.arange(60), 10)


def fit(**options):
    ranker = AdditiveRanker(smooth=0.1, bins=8, pairs=[(0, 1), (0, 3), (1, 2)], **options)
    return ranker.fit(X, Y, qid=QID).to_model()


def worst(model, j, shape):
    """Return the largest violation over all cells of all columns, one by one."""
    tables = find_tables(model)
    terms = [term for term in tables.terms if j in term.columns]
    others = [term.columns[1 - term.columns.index(j)] for term in terms[1:]]
    sign = {"increasing": 1, "decreasing": -1, "convex": 1, "concave": -1}[shape]
    largest = 0.0
    sizes = [
        terms[1 + k].values.shape[1 - terms[1 + k].columns.index(j)] for k in range(len(others))
    ]
    for places in itertools.product(*map(range, sizes)):
        effect = terms[0].values[:-1].copy()
        for term, place in zip(terms[1:], places, strict=True):
            lanes = term.values if term.columns[0] == j else term.values.T
            effect += lanes[list(tables.axis_cells[j]), place][:-1]
        changes = sign * np.diff(effect)
        if shape in ("convex", "concave"):
            cuts = np.array(tables.bins.cuts[j])
            middles = (cuts[1:] + cuts[:-1]) / 2
            first = cuts[0] - (cuts[1] - cuts[0]) / 2
            last = cuts[-1] + (cuts[-1] - cuts[-2]) / 2
            centres = np.concatenate([[first], middles, [last]])
            changes = np.diff(changes / np.diff(centres / np.abs(centres).max()))
        largest = max(largest, -changes.min())
    return largest


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("j", [0, 1, 2])
def test_the_worst_cell_is_that_of_brute_force(j, shape):
    model = fit()
    (proof,) = certify(model, {j: shape})
    expected = worst(model, j, shape)
    assert proof.holds == (expected <= 1e-12)
    assert proof.change == pytest.approx(expected, rel=1e-5, abs=1e-12)
    assert (proof.cell is None) == proof.holds
    tables = find_tables(model)
    assert proof.n_cells == sum(term.values.size for term in tables.terms if j in term.columns)


def test_a_violation_names_the_cells_of_all_columns():
    (proof,) = certify(fit(), {0: "decreasing"})
    assert "where 2 " in proof.cell  # columns are shown as in text files, from 1
    assert "from '" in proof.cell
    assert proof.to_dict()["shape"] == "decreasing"


def test_the_shapes_of_the_training_are_proved_by_default():
    model = fit(shapes={0: "increasing", 1: "decreasing"})
    proofs = certify(model)
    assert [(proof.column, proof.shape, proof.holds) for proof in proofs] == [
        ("1", "increasing", True),
        ("2", "decreasing", True),
    ]
    # A single entry that breaks a shape is found.
    weights = model.to_dense().copy()
    tables = find_tables(model)
    term = next(term for term in tables.terms if term.columns == (0, 1))
    weights[term.start + 2 * term.values.shape[1] + 1] += 10.0
    broken = LinearModel.from_weights(
        weights, transforms=model.transforms, parameters=model.parameters
    )
    assert not certify(broken)[0].holds


def test_linear_columns_have_the_shape_of_their_sign():
    ranker = AdditiveRanker(smooth=0.1, pairs=0, linear=[2]).fit(X, Y, qid=QID)
    model = ranker.to_model()
    (rises,), (falls,) = (certify(model, {2: shape}) for shape in ("increasing", "decreasing"))
    assert (rises.holds, falls.holds) == (True, False)
    assert falls.change == pytest.approx(ranker.coef_[-1])
    assert certify(model, {2: "convex"})[0].holds


@pytest.mark.parametrize(
    ("shapes", "parameter"),
    [
        ({"price": "increasing"}, "shape"),
        ({4: "increasing"}, "shape"),
        ({0: "rising"}, "shape"),
        ({3: "increasing"}, "shape"),
        ({}, "shape"),
        (None, "shape"),
    ],
)
def test_shapes_that_cannot_be_proved_are_refused(shapes, parameter):
    with pytest.raises(ParameterError) as caught:
        certify(fit(categorical=[3]), shapes)
    assert caught.value.parameter == parameter


def test_models_without_tables_are_refused():
    with pytest.raises(ParameterError) as caught:
        certify(LinearModel.from_weights([1.0]), {0: "increasing"})
    assert caught.value.parameter == "model"
