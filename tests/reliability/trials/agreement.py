"""Valid but unusual problems: every way into a ranker and out of its model says the same.

Problems have weights of 0 and tiny and huge ones, lists of one row and of one label, tied,
negative and real labels, equal rows, constant, empty and duplicate columns, magnitudes from 1e-150
to 1e150, both precisions, whole numbers and strings as query ids, sorted and shuffled. A way is
arrays, a ``Dataset``, files, streams in blocks of several sizes, other threads. Ways
of one group must give the same bits or the same class of error.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import rankine
from rankine.core.errors import RankineError
from rankine.metrics import evaluate
from rankine.model import LinearModel
from rankine.rankers.registry import ranker_class
from rankine.scoring import Scorer
from rankine.transforms.apply import score_dataset
from reference import ranking_metrics as slow
from reliability.harness.outcome import Job, Outcome

#: What is compiled anyway: the kernels of a run are those of these settings.
SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("spd", {"n_steps": 300}),
    ("spd", {"n_steps": 300, "sampling": "uniform", "solver": "passive_aggressive"}),
    ("spd", {"n_steps": 300, "sampling": "rejection", "solver": "romma"}),
    ("ranksvm", {"tol": 1e-3}),
    ("ranksvm", {"loss": "squared_hinge", "normalization": "pair"}),
    ("least-squares", {}),
    ("least-squares", {"pairs": "untied", "normalization": "sum"}),
    ("domination", {"l1": 0.1, "tol": 1e-3}),
    ("elastic", {"n_passes": 2}),
    ("elastic", {"solver": "fobos", "batch_lists": 2}),
)
SCALES = ("none", "standard", "maxabs", "query")
MAGNITUDES = (1e-150, 1e-20, 1e-3, 1e3, 1e20, 1e150)
#: Sums of 1e150 may overflow on the way: the error is told, the NumPy warning is not.
_CALM = {"all": "ignore"}


class Way(NamedTuple):
    """How data reach a ranker; ways of one ``group`` promise the same bits."""

    group: str
    name: str
    fit: Any


def problem(rng: Any) -> dict[str, Any]:
    """Rows, labels, ids and weights of a valid but unusual problem."""
    random = np.random.default_rng(rng.getrandbits(32))
    sizes = [rng.choice((1, 1, 2, 3, 5, 9, 30)) for _ in range(rng.randint(1, 9))]
    n, d = sum(sizes), rng.randint(1, 6)
    X = np.round(random.normal(size=(n, d)), 3) * (
        random.random((n, d)) < rng.choice((0.3, 0.8, 1))
    )
    for j in range(d):
        kind = rng.random()
        if kind < 0.1:
            X[:, j] = rng.choice((0.0, 1.0, -2.5))
        elif kind < 0.2:
            X[:, j] = X[:, 0]
        elif kind < 0.3:
            X[:, j] *= rng.choice(MAGNITUDES)
    if rng.random() < 0.3:
        X[:] = X[random.integers(0, n, n)]
    labels = rng.choice(([0.0, 1.0], [0.0, 1.0, 2.0, 4.0], [-1.5, 0.25, 3.0], None))
    y = np.round(random.normal(size=n), 2) if labels is None else random.choice(labels, n)
    ids = random.permutation(100)[: len(sizes)]
    if rng.random() < 0.2:
        y[: sizes[0]] = y[0]
    qid = np.repeat(ids.astype(str) if rng.random() < 0.4 else ids, sizes)
    weight = None
    if rng.random() < 0.4:
        weight = random.choice(rng.choice(([0.0, 1.0, 2.0], [1e-6, 1.0, 1e6], [0.5, 3.0])), n)
        weight[rng.randrange(n)] = 1.0
    if rng.random() < 0.2:
        order = random.permutation(n)
        X, y, qid = X[order], y[order], qid[order]
        weight = None if weight is None else weight[order]
    narrow = rng.random() < 0.3 and np.abs(X).max(initial=0.0) < 1e30
    X = (X + 0.0).astype(np.float32 if narrow else np.float64)
    return {"X": X, "y": y, "qid": qid, "weight": weight, "sparse": rng.random() < 0.4}


def ways(given: dict[str, Any], folder: Any, kinds: tuple[str, ...]) -> list[Way]:
    """Every way from a problem to a fitted ranker."""
    X = sparse.csr_matrix(given["X"]) if given["sparse"] else given["X"]
    y, qid, weight = given["y"], given["qid"], given["weight"]
    data = rankine.Dataset.from_arrays(X, y, qid, weight=weight)
    reading = {
        "n_features": data.n_features,
        "dtype": str(given["X"].dtype),
        "dense": not given["sparse"],
        "qid_type": "str" if qid.dtype.kind == "U" else "int",
    }
    found = [
        Way("memory", "arrays", lambda r: r.fit(X, y, qid=qid, sample_weight=weight)),
        Way("memory", "Dataset", lambda r: r.fit(data)),
    ]
    files = ["parquet", "npz"] if weight is not None else ["txt", "parquet", "npz"]
    for suffix in files:
        path = folder / f"rows.{suffix}"
        data.save(path)
        own = reading if suffix == "txt" else {**reading, "qid_type": "int"}
        if suffix != "txt":
            own.pop("n_features")
        found.append(Way("memory", suffix, lambda r, p=path, o=own: r.fit(rankine.load(p, **o))))
        if suffix == "npz":
            continue
        if "stream" in kinds and data.queries.rows is None:
            found += [
                Way(
                    "stream",
                    f"{suffix} in blocks of {rows} rows",
                    lambda r, p=path, o=own, k=rows: r.fit(rankine.scan(p, block_rows=k, **o)),
                )
                for rows in (1, 7, 1000)
            ]
    return found


def outcome_of(way: Way, ranker: Any, threads: int) -> Any:
    """The fitted ranker, or the class of the error."""
    os.environ["RANKINE_NUM_THREADS"] = str(threads)
    try:
        with warnings.catch_warnings(), np.errstate(**_CALM):
            warnings.simplefilter("ignore")
            return way.fit(ranker)
    except RankineError as error:
        return type(error).__name__


def told(found: Any) -> str:
    """An outcome in a few words."""
    return found if isinstance(found, str) else f"weights {found.coef_.tolist()}"


def same(one: Any, other: Any) -> bool:
    """The same bits, or the same class of error."""
    if isinstance(one, str) or isinstance(other, str):
        return one is other or (isinstance(one, str) and isinstance(other, str) and one == other)
    return np.array_equal(one.coef_, other.coef_)


def scores_agree(ranker: Any, given: dict[str, Any], folder: Any) -> str:
    """What differs between ``predict``, the saved model and the scorer; empty when nothing does."""
    index = rankine.Dataset.from_arrays(given["X"], given["y"], given["qid"]).queries
    rows = np.arange(len(given["y"])) if index.rows is None else index.rows
    X, sizes = given["X"][rows], index.sizes
    wanted = ranker.predict(given["X"], given["qid"])[rows]
    path = folder / "model.rank"
    ranker.to_model().save(path)
    model = LinearModel.load(path)
    data = rankine.Dataset.from_arrays(X, given["y"][rows], group=sizes)
    if not np.array_equal(score_dataset(model, data), wanted):
        return "the loaded model scores otherwise"
    if not np.isfinite(wanted).all():
        return "" if np.abs(given["X"]).max() > 1e100 else "scores are not finite"
    found = Scorer(model).score(X, group=sizes)
    # list scaling rounds to the precision of the rows in predict, and never in the scorer
    lists = ranker.scale == "query"
    eps = 4 * float(np.finfo(X.dtype).eps) if lists else 1e-12
    large = 1.0 if lists else np.abs(X.astype(np.float64)).max(initial=1.0)
    bound = eps * large * max(1.0, np.abs(ranker.coef_).sum())
    if not np.allclose(found, wanted, rtol=1e-9, atol=bound):
        return f"Scorer gives {found.tolist()} for {wanted.tolist()}"
    order = [given["y"][rows][a:b] for a, b in zip(index.starts, index.starts[1:], strict=False)]
    if (given["y"] < 0).any() or given["y"].max() != round(given["y"].max()):
        return ""
    slowly = [
        slow.pairwise_error(list(labels), list(wanted[a:b]))
        for labels, a, b in zip(order, index.starts, index.starts[1:], strict=False)
        if len(set(labels)) > 1
    ]
    fast = evaluate("pairwise-error", data.y, wanted, data.queries, per_query=True)
    fast = fast[~np.isnan(fast)]
    return "" if np.allclose(fast, slowly) else f"pairwise error {fast} is {slowly} by definition"


def trial(job: Job) -> Outcome:
    """Problems and settings drawn from the list, each in every way."""
    outcome = Outcome()
    for case, rng in job.cases(outcome):
        given = problem(rng)
        system, options = rng.choice(SETTINGS)
        kind = ranker_class(system)
        scale = rng.choice(SCALES)
        where = f"{job.name(case)} {system} {options} scale={scale}"
        first: dict[str, tuple[str, Any]] = {}
        for way in ways(given, job.folder, kind.can.fit):
            for threads in (1, 2) if way.name == "Dataset" else (1,):
                found = outcome_of(way, kind(random_state=0, scale=scale, **options), threads)
                name, wanted = first.setdefault(way.group, (way.name, found))
                outcome.require(
                    same(wanted, found), "unequal",
                    f"{where}: {name} {told(wanted)}, {way.name} ({threads}) {told(found)}",
                )  # fmt: skip
        fitted = first["memory"][1]
        outcome.counts["refused" if isinstance(fitted, str) else "fitted"] += 1
        if not isinstance(fitted, str):
            trouble = scores_agree(fitted, given, job.folder)
            outcome.require(not trouble, "unequal", f"{where}: {trouble}")
    return outcome


def warm() -> None:
    """Load the compiled kernels of every setting in the parent."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(12, 3)), np.tile([0.0, 1.0, 2.0], 4)
    for system, options in SETTINGS:
        for matrix in (X, X.astype(np.float32), sparse.csr_matrix(X)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ranker_class(system)(random_state=0, **options).fit(matrix, y, group=[6, 6])
