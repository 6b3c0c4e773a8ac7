"""Ten kinds of lists, each cut into three by query: to train, to choose, to test."""

from __future__ import annotations

import csv
import lzma

import numpy as np
from scipy import sparse

import rankine
from benchmarks.real_data import data_folder, read_reuters
from benchmarks.workloads import CLICK_FEATURES, NUMBERS, click_lists, letor_like, mslr_like
from rankine import Dataset
from rankine.data.splits import split_queries

#: Shares of the queries that are trained on, chosen by, and tested on.
SHARES = (0.5, 0.25, 0.25)
#: Topics of Reuters: neither so frequent that every ranker is right, nor unlearnable.
TOPICS = 12


def cut(data):
    """The one task of most sets."""
    return [split_queries(data, SHARES, random_state=0)]


def letor(folder):
    """All five parts of a LETOR folder."""
    parts = sorted((data_folder() / folder).glob("S*.txt.xz"))
    return cut(rankine.load([str(part) for part in parts]))


def districts():
    """California's districts in lists of 20 neighbours: columns and grades 0 to 4 by price."""
    path = data_folder() / "california_housing" / "housing.csv.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in ("median_house_value", "ocean_proximity")]
    X = np.array([[float(row[name] or 0.0) for name in names] for row in rows])
    price = np.array([float(row["median_house_value"]) for row in rows])
    order = np.lexsort((X[:, 0], np.floor(2 * X[:, 1])))[: 20 * 500]
    y = np.searchsorted(np.quantile(price, [0.5, 0.75, 0.9, 0.97]), price).astype(float)
    return X[order], y[order], np.arange(len(order)) // 20


def california():
    """Raw columns, from incomes of a few units to tens of thousands of rooms."""
    return cut(Dataset.from_arrays(*districts()))


def california_bins():
    """The same columns as indicators of their deciles."""
    X, y, qid = districts()
    cells = []
    for column in X.T:
        place = np.searchsorted(np.quantile(column, np.linspace(0.1, 0.9, 9)), column)
        cells.append(sparse.csr_matrix((np.ones(len(y)), (np.arange(len(y)), place)),
                                       shape=(len(y), 10)))  # fmt: skip
    return cut(Dataset.from_arrays(sparse.hstack(cells, format="csr"), y, qid))


def reuters():
    """Topics of news by their words: one list of documents a topic, each with its own model."""
    X, Y, _, n_train = read_reuters()
    rng = np.random.default_rng(0)
    train = rng.permutation(n_train)[:6000]
    rest = n_train + rng.permutation(X.shape[0] - n_train)[:6000]
    parts = train[:3000], train[3000:], rest
    enough = [t for t in range(Y.shape[1]) if 15 <= Y[parts[0], t].sum() <= 60]
    chosen = [t for t in enough if min(Y[p, t].sum() for p in parts) >= 10][:TOPICS]
    return [tuple(Dataset.from_arrays(X[p], Y[p, t]) for p in parts) for t in chosen]


def lightgbm():
    """LightGBM's example of ranking: sparse columns in [0, 1], five grades."""
    folder = data_folder() / "lightgbm_lambdarank"
    parts = []
    for name in ("train", "test"):
        with lzma.open(folder / f"rank.{name}.query.xz", "rt") as file:
            group = [int(line) for line in file]
        parts.append(rankine.load(str(folder / f"rank.{name}.xz"), group=group, n_features=300))
    train, valid = split_queries(parts[0], (2, 1), random_state=0)
    return [(train, valid, parts[1])]


def generated():
    """Dense lists scaled to [0, 1], as LETOR has them."""
    X, y, qid = letor_like(queries=240, size=60)
    return cut(Dataset.from_arrays(X, y, qid))


def mslr():
    """Dense raw lists with heavy tails, five grades."""
    X, y, qid = mslr_like(queries=240)
    return cut(Dataset.from_arrays(X, y, qid))


def click_log():
    """Purchases by twenty numbers of different units and a few categories."""
    data = click_lists(4000)
    frequent = np.argsort(-np.bincount(data.X.indices, minlength=CLICK_FEATURES))[: 20 + 300]
    X = data.X[:, np.sort(frequent)].toarray().astype(float)
    X[:, :NUMBERS] *= 10.0 ** np.linspace(-2, 4, NUMBERS)
    return cut(Dataset.from_arrays(sparse.csr_matrix(X), data.y, data.qid))


def hashed_log():
    """Purchases by twenty numbers and twenty hashed categories of up to 300,000 values."""
    return cut(click_lists(8000))


SETS = {
    "OHSUMED, list-scaled": lambda: letor("ohsumed_letor3_querylevelnorm"),
    "OHSUMED, raw": lambda: letor("ohsumed_letor3_min"),
    "MQ2008": lambda: letor("mq2008"),
    "California, raw": california,
    "California, indicators": california_bins,
    "Reuters topics": reuters,
    "LightGBM's example": lightgbm,
    "generated LETOR": generated,
    "generated MSLR": mslr,
    "generated click log": click_log,
    "generated hashed log": hashed_log,
}
