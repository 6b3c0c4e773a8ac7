"""Draw valid but unusual problems, which random bytes would never form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

import rankine

MAGNITUDES = (1e-150, 1e-20, 1e-3, 1e3, 1e20, 1e150)
NAMES = ("bm25", "price", "a b", "x:y", "é", "7")


@dataclass(frozen=True)
class Problem:
    """Rows, labels, ids and weights; ``magnitude`` is the largest absolute value."""

    X: Any
    y: Any
    qid: Any
    weight: Any = None
    query_weight: Any = None
    docid: Any = None
    position: Any = None
    names: Any = None
    sparse: bool = False

    @property
    def magnitude(self) -> float:
        return float(np.nanmax(np.abs(self.X.astype(np.float64)), initial=0.0))

    @property
    def rows(self) -> Any:
        """Features as a user would pass them, dense or sparse."""
        return sparse.csr_matrix(self.X) if self.sparse else self.X

    @property
    def missing(self) -> bool:
        return bool(np.isnan(self.X).any())

    def data(self) -> rankine.Dataset:
        return rankine.Dataset.from_arrays(
            self.rows, self.y, self.qid, weight=self.weight, docid=self.docid,
            position=self.position, feature_names=self.names,
        )  # fmt: skip

    def take(self, order: Any) -> Problem:
        """Return the problem with these rows in this order."""
        pick = lambda values: None if values is None else values[order]  # noqa: E731
        return replace(
            self, X=self.X[order], y=self.y[order], qid=self.qid[order], weight=pick(self.weight),
            docid=pick(self.docid), position=pick(self.position),
        )  # fmt: skip

    def unseen(self, rng: Any) -> Problem:
        """Draw other rows of the same columns, in other lists and beyond the previous ranges."""
        random = np.random.default_rng(rng.getrandbits(32))
        n = rng.randint(1, 12)
        X = np.take_along_axis(self.X, random.integers(0, len(self.X), (n, self.X.shape[1])), 0)
        X = X * random.choice([1.0, 1.0, 0.0, -2.0], X.shape).astype(X.dtype)
        qid = self.qid[np.sort(random.integers(0, len(self.qid), n))]
        return Problem(X + X.dtype.type(0), random.integers(0, 3, n).astype(float), qid,
                       names=self.names, sparse=self.sparse).grouped()  # fmt: skip

    def grouped(self) -> Problem:
        """Return the rows grouped by list, in order of first appearance."""
        index = rankine.Dataset.from_arrays(self.X, self.y, self.qid).queries
        return self if index.rows is None else self.take(index.rows)


def change_column(rng: Any, random: Any, X: Any, j: int) -> None:
    """Make column j constant, a copy of another one, or of another magnitude."""
    kind = rng.random()
    if kind < 0.1:
        X[:, j] = rng.choice((0.0, 1.0, -2.5))
    elif kind < 0.2:
        X[:, j] = X[:, 0]
    elif kind < 0.3:
        X[:, j] *= rng.choice(MAGNITUDES)
    elif kind < 0.35:
        X[:, j] = random.integers(-3, 4, len(X))


def draw_problem(rng: Any) -> Problem:
    """Draw a problem; some features may be NaN."""
    random = np.random.default_rng(rng.getrandbits(32))
    sizes = [rng.choice((1, 1, 2, 3, 5, 9, 30)) for _ in range(rng.randint(1, 9))]
    n, d = sum(sizes), rng.randint(1, 6)
    density = rng.choice((0.3, 0.8, 1))
    X = np.round(random.normal(size=(n, d)), 3) * (random.random((n, d)) < density)
    for j in range(d):
        change_column(rng, random, X, j)
    if rng.random() < 0.1:
        X *= rng.choice(MAGNITUDES)
    if rng.random() < 0.3:
        X[:] = X[random.integers(0, n, n)]
    labels = rng.choice(([0.0, 1.0], [0.0, 1.0, 2.0, 4.0], [-1.5, 0.25, 3.0], None))
    y = np.round(random.normal(size=n), 2) if labels is None else random.choice(labels, n)
    if rng.random() < 0.2:
        y[: sizes[0]] = y[0]
    ids = random.permutation(100)[: len(sizes)]
    ids = np.array([f"q{k}" for k in ids]) if rng.random() < 0.4 else ids
    position = np.concatenate([random.permutation(size) + 1 for size in sizes])
    weight = query_weight = docid = None
    if rng.random() < 0.4:
        weights = ([0.0, 1.0, 2.0], [1e-6, 1.0, 1e6], [0.5, 3.0], [1e-30, 1.0], [1.0, 1e30])
        weight = random.choice(rng.choice(weights), n)
        weight[rng.randrange(n)] = 1.0
    if rng.random() < 0.3:
        weights = rng.choice(([0.0, 1e-3, 1.0, 2.0, 50.0], [1e-30, 1.0, 1e30]))
        query_weight = random.choice(weights, len(sizes))
        query_weight[rng.randrange(len(sizes))] = 1.0
        query_weight = dict(zip(ids.tolist(), query_weight.tolist(), strict=True))
    if rng.random() < 0.3:
        docid = np.array([f"doc{k}" for k in random.permutation(n)])
    is_sparse = rng.random() < 0.4
    is_float32 = rng.random() < 0.3 and np.abs(X).max(initial=0.0) < 1e30
    X = (X + 0.0).astype(np.float32 if is_float32 else np.float64)
    if rng.random() < 0.2:
        X[random.random(X.shape) < rng.choice((0.05, 0.3))] = np.nan
    names = NAMES[:d] if rng.random() < 0.5 else None
    qid = np.repeat(ids, sizes)
    problem = Problem(X, y, qid, weight, query_weight, docid, position, names, is_sparse)
    if rng.random() < 0.2:
        return problem.take(random.permutation(n))
    return problem


@dataclass(frozen=True)
class RawLog:
    """Columns of a log whose lists are contiguous, and how they are used."""

    table: pa.Table
    spec: dict[str, Any]
    #: Whether the column ``mass`` weighs the rows.
    weighted: bool = False


def raw_log(rng: Any) -> RawLog:
    """Draw a log with categories, nulls, unusual numbers and positions."""
    random = np.random.default_rng(rng.getrandbits(32))
    sizes = [rng.choice((1, 2, 3, 5, 9)) for _ in range(rng.randint(1, 12))]
    n = sum(sizes)
    null_rate = rng.choice((0.0, 0.1, 0.5))

    def nulls(values: list[Any]) -> list[Any]:
        return [None if random.random() < null_rate else value for value in values]

    brands = ["acme", "", "é", "a=b", "0", " x "]
    sessions = np.repeat(random.permutation(50)[: len(sizes)], sizes)
    columns = {
        "session": pa.array([f"s{k}" for k in sessions]),
        "brand": pa.array(
            nulls([brands[k] for k in random.integers(0, len(brands), n)]), pa.string()
        ),
        "kind": pa.array(nulls(random.integers(-2, 3, n).tolist()), pa.int64()),
        "price": pa.array(nulls((np.round(random.normal(size=n), 3) + 0.0).tolist()), pa.float64()),
        "stock": pa.array(nulls(random.integers(0, 9, n).tolist()), pa.int32()),
        "clicked": random.integers(0, 2, n),
        "bought": random.random(n) < 0.2,
        "position": np.concatenate([np.arange(1, size + 1) for size in sizes]),
        "mass": random.choice([0.0, 1e-6, 1.0, 2.0], n),
    }  # fmt: skip
    columns["mass"][rng.randrange(n)] = 1.0
    if rng.random() < 0.5:
        columns["brand"] = columns["brand"].dictionary_encode()
    spec = {
        "numeric": ["price", "stock"][: rng.randint(1, 2)],
        "categorical": rng.choice((["brand"], ["brand", "kind"])),
        "crosses": rng.choice(([], ["brand*kind"], ["kind*stock"], ["brand*kind", "kind*stock"])),
        "hash_bits": rng.choice((4, 12)),
    }
    return RawLog(pa.table(columns), spec, rng.random() < 0.4)
