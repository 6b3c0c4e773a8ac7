"""Models and 200 documents that the tests of engines share."""

from functools import cache

import numpy as np

from rankine import AdditiveRanker, Dataset, LeastSquaresRanker, LinearModel, Scorer
from rankine.core.specs import Binned, ListRange, LogColumns, MissingValues, OneHot, RunScores

N_DOCUMENTS = 200
NAMES = ["bm25", "price", "rating"]
BRANDS = ("acme", "it's", "a b", "9")
CUTS = (-1.0, 0.0, 0.5, 2.25)


@cache
def rows():
    """Numbers, many of them equal to a cut, some missing; texts, some of them unseen."""
    rng = np.random.default_rng(0)
    numbers = np.round(rng.normal(size=(N_DOCUMENTS, 3)) * 2, 1)
    numbers[:40, 1] = np.resize(CUTS, 40)
    missing = rng.random(numbers.shape) < 0.15
    documents = []
    for i in range(N_DOCUMENTS):
        row = {
            name: None if missing[i, j] else float(numbers[i, j]) for j, name in enumerate(NAMES)
        }
        row["brand"] = [*BRANDS, "unseen", None][rng.integers(6)]
        documents.append(row)
    return documents


def matrix():
    return np.array([[row[name] for name in NAMES] for row in rows()], dtype=np.float64)


def expected(model, names=(*NAMES, "brand")):
    named = [{name: row[name] for name in names} for row in rows()]
    return Scorer(model, unknown="zero").score(named)


def labels():
    clean = np.nan_to_num(matrix())
    return np.digitize(clean[:, 0] + clean[:, 1] ** 2 - clean[:, 2], [0.0, 2.0])


def linear():
    """Weights of features; a missing value is 0."""
    model = LinearModel.from_weights([0.7, -1.3, 0.01], NAMES, transforms=[MissingValues("zero")])
    return model, expected(model, NAMES)


def scaled():
    """Features scaled in training; the scaling is part of the weights."""
    X = np.nan_to_num(matrix()) * [1.0, 100.0, 1e-3]
    data = Dataset.from_arrays(X, labels(), np.repeat(np.arange(10), 20), feature_names=NAMES)
    model = LeastSquaresRanker(l2=0.1, scale="standard").fit(data).to_model()
    model = LinearModel.from_weights(model.to_dense(), NAMES, transforms=[MissingValues("zero")])
    return model, expected(model, NAMES)


def scaled_within_lists():
    return LinearModel.from_weights([0.7, -1.3, 0.01], NAMES, transforms=[ListRange()])


@cache
def additive():
    """Curves and a pair with cells of missing values."""
    index = np.repeat(np.arange(10), 20)
    data = Dataset.from_arrays(matrix(), labels(), index, feature_names=NAMES)
    model = AdditiveRanker(smooth=0.01, pairs=[(0, 1)]).fit(data).to_model()
    return model, expected(model, NAMES)


def fusion(engine):
    """Scores of two retrievers; a missing value is a document that a retriever did not return."""
    spec = RunScores(normalization="min_max", engine=engine)
    model = LinearModel.from_weights([0.75, 0.25], ["first", "second"], transforms=[spec])
    documents = [
        {
            name: abs(row[column]) + 0.1
            for name, column in (("first", "bm25"), ("second", "rating"))
            if row[column] is not None
        }
        for row in rows()
    ]
    return model, documents, Scorer(model).score(documents)


def raw():
    """Numbers, categories and cells of raw columns."""
    spec = LogColumns(
        numeric=("rating",),
        one_hot=(OneHot("brand", BRANDS),),
        binned=(Binned("price", CUTS),),
    )
    weights = np.random.default_rng(1).normal(size=spec.n_features)
    model = LinearModel.from_weights(weights, weight_names=spec.names, transforms=[spec])
    return model, expected(model)
