"""Seeded synthetic workloads of the shapes that the papers and peers are measured on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

RCV1_FEATURES = 47_236
#: Generated workloads that take minutes are kept here; git ignores it.
STORE = Path(__file__).parent.parent / "data"
#: Rows of the stored collections; the large one is RCV1's training and test part.
SMALL, LARGE = 60_000, 781_265 + 23_149


#: ElasticRank as the paper prints it: one pass, one step size, columns as they are.
AS_PRINTED = {
    "adaptive": False,
    "eta0": 1.0,
    "l1": 1e-3,
    "l2": 1e-3,
    "n_passes": 1,
    "scale": "none",
}


class BlockStream:
    """Blocks of rows in memory that a ranker reads as a stream."""

    def __init__(self, blocks, n_features):
        self.blocks = blocks
        self.n_features = n_features

    def __iter__(self):
        return iter(self.blocks)


def rcv1_like(m: int, seed: int = 20260101):
    """Generate sparse tf-idf-like text with binary and real-valued labels.

    Words follow a Zipf law; a row mixes background words with those of one of 100 topics. The
    binary label marks 0.2 % of the rows, by a noisy linear function; the utility is the inner
    product with one held-out row, which shares a word with nearly every other.
    """
    rng = np.random.default_rng(seed)
    d, topics = RCV1_FEATURES, 100
    word = rng.permutation(d)
    background = np.cumsum(1 / (np.arange(d) + 15.0))
    background /= background[-1]
    topic_words = np.stack([rng.choice(d, 400, replace=False) for _ in range(topics)])
    inner = np.cumsum(1 / (np.arange(400) + 5.0))
    inner /= inner[-1]
    blocks = []
    for start in range(0, m + 1, 50_000):
        rows = min(50_000, m + 1 - start)
        length = np.clip(rng.lognormal(np.log(70), 0.5, rows), 12, 600).astype(np.int64)
        row = np.repeat(np.arange(rows), length)
        feature = word[np.minimum(np.searchsorted(background, rng.random(len(row))), d - 1)]
        from_topic = rng.random(len(row)) < 0.35
        topic = rng.integers(0, topics, rows)[row[from_topic]]
        topic_word = np.minimum(np.searchsorted(inner, rng.random(len(topic))), 399)
        feature[from_topic] = topic_words[topic, topic_word]
        key, count = np.unique(row * d + feature, return_counts=True)
        pointer = np.concatenate([[0], np.cumsum(np.bincount(key // d, minlength=rows))])
        blocks.append(
            sparse.csr_matrix(
                ((1 + np.log(count)).astype(np.float32), (key % d).astype(np.int32), pointer),
                shape=(rows, d),
            )
        )
    X = sparse.vstack(blocks, format="csr")
    document_counts = np.maximum(np.bincount(X.indices, minlength=d), 1)
    X.data *= np.log((m + 1) / document_counts).astype(np.float32)[X.indices]
    norm = np.sqrt(np.add.reduceat(X.data.astype(np.float64) ** 2, X.indptr[:-1]))
    X.data /= np.repeat(np.maximum(norm, 1e-9), np.diff(X.indptr)).astype(np.float32)
    utility = np.asarray(X[:m] @ X[m].toarray().ravel())
    w = np.zeros(d)
    w[word[rng.choice(np.arange(50, 5000), 300, replace=False)]] = rng.normal(0, 1, 300)
    score = X[:m] @ w
    score = score + rng.normal(0, 0.35 * score.std(), m)
    binary = np.where(score > np.quantile(score, 0.998), 1.0, -1.0)
    return X[:m], binary, utility


def stored_rcv1_like(m: int):
    """Return the first m rows of a collection of ``rcv1_like`` that is stored once generated."""
    pool = SMALL if m <= SMALL else LARGE
    path = STORE / f"rcv1_like-{pool}.npz"
    if not path.exists():
        X, binary, utility = rcv1_like(pool)
        STORE.mkdir(exist_ok=True)
        part = path.with_name(f"{os.getpid()}.part.npz")  # two runs may generate it at once
        np.savez(
            part, data=X.data, indices=X.indices, indptr=X.indptr, binary=binary, utility=utility
        )
        part.replace(path)
    with np.load(path) as z:
        X = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=(pool, RCV1_FEATURES))
        return X[:m], z["binary"][:m], z["utility"][:m]


class Text(NamedTuple):
    """A large collection of documents: rows, a rare topic as 1 / -1, and real-valued utilities."""

    name: str
    X: Any
    binary: Any
    utility: Any
    topics: dict  # further topics by name, 1 / -1; none for generated rows


#: The topic of Sculley's table 1.
TOPIC = "E311"


def large_text(m: int, others: int = 0, topic: str = TOPIC):
    """Return the first m rows of RCV1 if ``RANKINE_DATA`` has it, else of ``stored_rcv1_like``.

    As in the papers the 781,265 documents of the test part come first, then the training part.
    Utilities are inner products with the last document. ``others`` topics are given beside
    ``topic``, those whose number of documents is nearest to its own.
    """
    from benchmarks.common.real_data import rcv1_is_there, read_rcv1

    if not rcv1_is_there():
        return Text("generated", *stored_rcv1_like(m), {})
    X, Y, names, train = read_rcv1()
    order = np.r_[train : X.shape[0], :train]
    selected = order[:m]
    signs = 2.0 * Y - 1.0
    topic_column = names.index(topic)
    sizes = Y.sum(axis=0, dtype=np.int64)
    near = [
        t
        for t in np.argsort(np.abs(sizes - sizes[topic_column]), kind="stable")
        if t != topic_column
    ][:others]
    return Text(
        "RCV1",
        X[selected],
        signs[selected, topic_column],
        np.asarray(X[selected] @ X[order[-1]].toarray().ravel(), dtype=np.float64),
        {names[t]: signs[selected, t] for t in near},
    )


def linear_topics(X, count: int, share: float, seed: int):
    """Yield labels 1 / -1 of several topics: noisy linear functions of 300 words, above a quantile.

    The same law as ``rcv1_like``'s own topic: words of middling frequency, noise of 0.35 standard
    deviations; ``share`` of the rows are positive.
    """
    rng = np.random.default_rng(seed)
    frequent = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")
    for _ in range(count):
        w = np.zeros(X.shape[1])
        w[rng.choice(frequent[50:5000], 300, replace=False)] = rng.normal(0, 1, 300)
        score = X @ w
        score = score + rng.normal(0, 0.35 * score.std(), X.shape[0])
        yield np.where(score > np.quantile(score, 1 - share), 1.0, -1.0)


def letor_like(queries: int = 75, size: int = 1000, features: int = 64, seed: int = 20260102):
    """Generate dense lists scaled to [0, 1] per query, with three grades, 1.6 % relevant."""
    rng = np.random.default_rng(seed)
    n = queries * size
    mix = rng.normal(0, 0.6, (12, features))
    X = rng.normal(size=(n, 12)) @ mix + rng.normal(size=(n, features))
    qid = np.repeat(np.arange(1, queries + 1), size)
    score = X @ (rng.normal(size=features) * (rng.random(features) < 0.35))
    score = score / score.std() + rng.normal(size=n)
    y = np.searchsorted(np.quantile(score, [0.984, 0.995]), score).astype(np.float64)
    boxes = X.reshape(queries, size, features)
    low, high = boxes.min(axis=1, keepdims=True), boxes.max(axis=1, keepdims=True)
    return ((boxes - low) / (high - low)).reshape(n, features).astype(np.float32), y, qid


def mslr_like(queries: int = 10_000, features: int = 136, seed: int = 20260103):
    """Generate dense lists of about 120 rows with five grades and skewed features.

    A quarter of the features are counts of heavy tail; of the utility's standard deviation 1 is
    linear and 0.6 comes from products of two features, so that a linear model cannot say it all.
    """
    rng = np.random.default_rng(seed)
    counts = np.clip(rng.lognormal(np.log(105), 0.5, queries), 5, 900).astype(np.int64)
    qid = np.repeat(np.arange(1, queries + 1), counts)
    n = len(qid)
    mix = rng.normal(0, 0.6, (12, features)).astype(np.float32)
    X = rng.standard_normal((n, 12), dtype=np.float32) @ mix
    X += rng.standard_normal((n, features), dtype=np.float32)
    X += rng.normal(0, 0.7, (queries, features)).astype(np.float32)[qid - 1]
    line = X @ (rng.normal(size=features) * (rng.random(features) < 0.35)).astype(np.float32)
    both = rng.choice(features, (6, 2))
    bent = sum(np.tanh(X[:, a] * X[:, b]) for a, b in both)
    score = line / line.std() + 0.6 * bent / bent.std() + rng.normal(0, 1.2, n)
    score += rng.normal(0, 0.5, queries)[qid - 1]
    y = np.searchsorted(np.quantile(score, [0.52, 0.84, 0.973, 0.992]), score).astype(np.float64)
    heavy = rng.choice(features, features // 4, replace=False)
    X[:, heavy] = np.expm1(np.minimum(X[:, heavy], 4))
    return X, y, qid


CLICK_FEATURES = 2**20
#: Values of each categorical field; the first six belong to the user.
FIELDS = [2, 7, 24, 300, 5000, 200_000]
FIELDS += [3, 8, 20, 50, 120, 400, 1000, 3000, 8000, 20_000, 50_000, 100_000, 300_000, 30]
USER_FIELDS, NUMBERS = 6, 20


def click_weights(seed: int = 20260104):
    """Draw the true weights: 30 % of the hashed categories and half of the numbers are non-zero."""
    truth = np.random.default_rng(seed)
    hashed = truth.normal(0, 0.45, CLICK_FEATURES) * (truth.random(CLICK_FEATURES) < 0.3)
    numbers = truth.normal(0, 0.5, NUMBERS) * (truth.random(NUMBERS) < 0.5)
    return hashed, numbers


def click_rows(rng, lists: int, alike: float = 0.0):
    """Draw lists of 5 to 15 items with 20 hashed categories and 20 numbers per row.

    With ``alike`` the items of a list resemble each other, as the answers to one search do: an
    item has the list's own value of a category with this probability, and this share of the
    variance of a number is the list's.
    """
    counts = rng.integers(5, 16, lists)
    qid = np.repeat(np.arange(lists), counts)
    n = len(qid)
    columns = np.empty((n, len(FIELDS)), dtype=np.int64)
    for field, size in enumerate(FIELDS):
        draws = rng.random(lists)[qid] if field < USER_FIELDS else rng.random(n)
        if alike and field >= USER_FIELDS:
            draws = np.where(rng.random(n) < alike, rng.random(lists)[qid], draws)
        value = np.minimum((size * draws**2.5).astype(np.int64), size - 1)
        mixed = (value + 1) * (2 * field + 0x9E3779B1) * 0x2C1B3C6D & 0x7FFFFFFFFFFF
        columns[:, field] = NUMBERS + (mixed ^ mixed >> 15) % (CLICK_FEATURES - NUMBERS)
    columns.sort(axis=1)
    while (twice := columns[:, 1:] == columns[:, :-1]).any():
        columns[:, 1:][twice] = np.minimum(columns[:, 1:][twice] + 1, CLICK_FEATURES - 1)
        columns.sort(axis=1)
    numbers = rng.normal(0, 1, (n, NUMBERS))
    if alike:
        common = rng.normal(0, 1, (lists, NUMBERS))[qid]
        numbers = np.sqrt(alike) * common + np.sqrt(1 - alike) * numbers
    return qid, columns, np.rint(np.clip(numbers, -4, 4) * 100) / 100


def purchases(qid, columns, numbers, utility):
    """Create a data set in which the item of largest utility of each list is bought."""
    from rankine import Dataset

    n = len(qid)
    first = np.flatnonzero(np.diff(qid, prepend=qid[0] - 1))
    y = np.zeros(n)
    y[np.lexsort((-utility, qid))[first]] = 1
    data = np.concatenate([numbers, np.ones(columns.shape)], axis=1).astype(np.float32)
    plain = np.tile(np.arange(NUMBERS), (n, 1))
    indices = np.concatenate([plain, columns], axis=1).astype(np.int32)
    width = indices.shape[1]
    X = sparse.csr_matrix(
        (data.ravel(), indices.ravel(), np.arange(n + 1) * width), shape=(n, CLICK_FEATURES)
    )
    return Dataset.from_arrays(X, y, qid)


def click_lists(lists: int, seed: int = 20260104):
    """Generate purchase lists of 5 to 15 items with 20 numbers and 20 hashed categories per row.

    Six categories belong to the user and are the same in the whole list; the item that maximises
    a linear utility plus Gumbel noise is bought. The weights do not depend on ``seed``.
    """
    w_hash, w_num = click_weights()
    rng = np.random.default_rng([20260104, seed])
    qid, columns, numbers = click_rows(rng, lists)
    utility = w_hash[columns].sum(1) + numbers @ w_num + rng.gumbel(0, 1, len(qid))
    return purchases(qid, columns, numbers, utility)
