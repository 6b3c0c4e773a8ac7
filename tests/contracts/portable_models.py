"""Models of every kind with lists of rows, for exports that compute the bits of the scorer.

A case returns a model and lists of rows: 10,000 rows in all, with missing, unseen and odd values.
"""

from functools import cache

import numpy as np

from rankine import AdditiveRanker, Dataset, LinearModel, Scorer
from rankine.core.specs import (
    Binned,
    Bins,
    ListRange,
    LogColumns,
    MissingValues,
    OneHot,
)

N_LISTS, N_ROWS = 500, 20
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def split(rows):
    return [rows[k * N_ROWS : (k + 1) * N_ROWS] for k in range(N_LISTS)]


def numbers(names, seed=0, missing=0.0, absent=0.2):
    """Rows of numbers of many sizes; some columns are absent or None."""
    rng = np.random.default_rng(seed)
    shape = (N_LISTS * N_ROWS, len(names))
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-8, 8, shape)
    values[rng.random(shape) < 0.1] = 0.0
    is_absent, is_missing = rng.random(shape) < absent, rng.random(shape) < missing
    rows = []
    for i, row in enumerate(values.tolist()):
        rows.append(
            {
                name: None if is_missing[i, j] else row[j]
                for j, name in enumerate(names)
                if not is_absent[i, j]
            }
        )
    return rows


def weights(size, seed=1):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=size) * 10.0 ** rng.integers(-6, 6, size)
    values[rng.random(size) < 0.2] = 0.0
    return values


NAMES = [f"f{j}" for j in range(37)]


@case
def features():
    return LinearModel.from_weights(weights(37), NAMES), split(numbers(NAMES))


@case
def features_without_names():
    rows = numbers([str(j + 1) for j in range(37)])
    return LinearModel.from_weights(weights(37)), split(rows)


@case
def scaled_lists():
    model = LinearModel.from_weights(weights(37), NAMES, transforms=[ListRange()])
    return model, split(numbers(NAMES, absent=0.4))


def filled(rule, *more):
    spec = MissingValues(rule)
    if rule in ("mean", "indicator"):
        spec = MissingValues(rule, (0, 3, 5, 20), (2.5, -1.0, 1e-3, 7.25))
    model = LinearModel.from_weights(weights(37), NAMES, transforms=[spec, *more])
    return model, split(numbers(NAMES, missing=0.2))


@case
def missing_zero():
    return filled("zero")


@case
def missing_mean():
    return filled("mean")


@case
def missing_query_min():
    return filled("query_min", ListRange())


@case
def missing_indicator():
    return filled("indicator")


TEXTS = ["a'b", "01234", "1e5", "é 漢字 😀", "true", '<b>"', "7"]
ODD = [None, "", "unseen", 5, 5.0, -12, True, False, 900, "x" * 200]
TIMES = ["2026-11-19", "2026-11-19T10:20:30.123456", "1969-12-31 23:59:59.5+02:00", None, 3, True]


def raw_rows(seed=3):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(N_LISTS * N_ROWS):
        row = {
            "price": float(np.round(rng.normal() * 10, 2)),
            "stars": int(rng.integers(0, 6)),
            "time": TIMES[rng.integers(len(TIMES))],
            "brand": (TEXTS + ODD)[rng.integers(len(TEXTS + ODD))],
            "shop": (TEXTS + ODD)[rng.integers(len(TEXTS + ODD))],
            "age": [None, 0.5, 1.0, 2.0, 2.5, 99.0][rng.integers(6)],
        }
        for name in list(row):
            if rng.random() < 0.1:
                del row[name]
            elif rng.random() < 0.05:
                row[name] = None
        rows.append(row)
    return split(rows)


def raw(transforms=(), seed=4, **fields):
    spec = LogColumns(
        numeric=("price", "stars", "time"),
        one_hot=(OneHot("brand", (*TEXTS, "5", "-12", "true")),),
        binned=(Binned("age", (1.0, 2.0, 2.5)),),
        **fields,
    )
    values = weights(spec.n_features, seed)
    values[2] = 1e-9
    return LinearModel.from_weights(values, transforms=[*transforms, spec]), raw_rows()


@case
def raw_columns():
    return raw()


@case
def raw_columns_scaled():
    model, lists = raw()
    transforms = (*model.transforms, ListRange())
    return LinearModel.from_weights(model.to_dense(), transforms=transforms), lists


@case
def raw_columns_with_indicators():
    return raw((MissingValues("indicator", (0, 2), (3.5, -2.0)),))


@case
def raw_columns_with_minima():
    return raw((MissingValues("query_min"),))


@case
def hashed_columns_and_crosses():
    crosses = (("brand", "shop"), ("stars", "brand"))
    return raw(hashed=("shop",), crosses=crosses, hash_bits=8)


@case
def columns_that_no_weight_needs():
    model, lists = raw((MissingValues("zero"),), hashed=("shop",), hash_bits=4)
    values = model.to_dense()
    values[[1, 2]] = values[3:13] = values[-16:] = 0.0
    return LinearModel.from_weights(values, transforms=model.transforms), lists


@case
def tables_and_pairs():
    rng = np.random.default_rng(0)
    names = ["price", "rating", "brand", "noise", "fifth"]
    X = np.round(rng.normal(size=(N_LISTS * N_ROWS, 5)), 2)
    X[:, 2] = rng.integers(0, 5, len(X))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.nan_to_num(X[:, 3])
    clean = np.nan_to_num(X)
    y = np.digitize(clean[:, 0] * clean[:, 1] + clean[:, 0] ** 2 + clean[:, 2] / 4, [0.3, 1.2])
    qid = np.repeat(np.arange(N_LISTS), N_ROWS)
    data = Dataset.from_arrays(X, y, qid, feature_names=names)
    ranker = AdditiveRanker(
        smooth=0.1, pairs=[(0, 1), (1, 2)], categorical=["brand"], linear=["noise"]
    ).fit(data)
    X[::7, 2] = 77.0
    X[::11, 0] = np.inf
    rows = [
        {name: None if np.isnan(x) else x for name, x in zip(names, row, strict=True)}
        for row in X.tolist()
    ]
    for i, row in enumerate(rows):
        if i % 5 == 0:
            del row[names[i // 5 % 5]]
    return ranker.to_model(), split(rows)


@case
def tables_of_raw_columns():
    spec = LogColumns(
        numeric=("price", "time", "age"),
        one_hot=(OneHot("brand", (*TEXTS, "5")), OneHot("shop", tuple(TEXTS))),
        tables=True,
    )
    codes = tuple(tuple(map(float, range(len(field.values)))) for field in spec.one_hot)
    bins = Bins(((-5.0, 0.0, 7.5), (0.0, 1e9), (1.0, 2.5), *codes), (3, 4), names=spec.columns)
    return LinearModel.from_weights(weights(sum(bins.n_cells)), transforms=[spec, bins]), raw_rows()


@cache
def cases():
    """Return names, models, lists and expected scores of all cases."""
    models, lists = zip(*(function() for function in CASES.values()), strict=True)
    expected = [
        [Scorer(model, unknown="zero").score(rows).tolist() for rows in each]
        for model, each in zip(models, lists, strict=True)
    ]
    return list(CASES), models, lists, expected


NUMBER = LinearModel.from_weights([1.0], transforms=[LogColumns(("a",))])
HASHED = LinearModel.from_weights(np.ones(2), transforms=[LogColumns(hashed=("a",), hash_bits=1)])
FEATURE = LinearModel.from_weights([1.0], ["a"])

#: Models with a value of column ``a`` that cannot be scored.
REFUSED = [
    (FEATURE, '"1"'),
    (FEATURE, "null"),
    (FEATURE, "Infinity"),
    (LinearModel.from_weights([1e300], ["a"]), "1e300"),
    (NUMBER, '"5"'),
    (NUMBER, '"2026-02-30"'),
    (NUMBER, "Infinity"),
    (HASHED, "1.5"),
    (LinearModel.from_weights([0.0, 1.0, 0.0], transforms=[Bins(((0.5,),), names=("a",))]), '"1"'),
]
