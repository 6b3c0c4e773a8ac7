"""Pass hostile arrays to everything that reads arrays: an error of rankine, or the right result.

Sparse matrices whose offsets, indices, sizes or types are changed; query ids, sizes of lists,
positions and weights that are negative, huge, missing or of another length; models whose file was
changed and that are used after loading. Compiled code reads them, so a missing check is a signal or
a wrong number. A matrix that is accepted must be one that scipy accepts, with the same scores as
its dense copy.
"""

from __future__ import annotations

import logging
import warnings

import numpy as np
from scipy import sparse

import rankine
from rankine import (
    AdditiveRanker,
    Dataset,
    DominationRanker,
    ElasticRanker,
    LeastSquaresRanker,
    RankSVM,
    Scorer,
    SPDRanker,
)
from rankine.core.errors import RankineError
from rankine.metrics import evaluate
from rankine.model import LinearModel
from reliability.harness.outcome import Job, Outcome
from reliability.trials.models import good_files, restructure

EXTREMES = (-1, 0, 1, 2, 3, 7, 100, -(2**31), 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62,
            2**63 - 1, -(2**63))  # fmt: skip
FLOATS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 0.5, 1e-310, 1e19, 1e308, -1e308)
#: Errors of scikit-learn's validation and of NumPy's conversions, which name no kernel.
ALLOWED = (RankineError, ValueError, TypeError, MemoryError)
#: Size of the matrices of the models to score with.
WIDTH = 4
RANKERS = (
    lambda rng: RankSVM(0.1, scale=_scale(rng), missing=_missing(rng), max_iter=20),
    lambda rng: LeastSquaresRanker(0.1, scale=_scale(rng), missing=_missing(rng)),
    lambda rng: SPDRanker(n_steps=50, scale=_scale(rng), sampling=rng.choice(("query", "uniform"))),
    lambda rng: ElasticRanker(n_passes=1, scale=_scale(rng), missing=_missing(rng)),
    lambda rng: DominationRanker(1.0, scale=_scale(rng), max_iter=20),
    lambda rng: AdditiveRanker(smooth=1.0, pairs=rng.choice((0, 1)), bins=4, max_iter=5),
)
fitted: list = []
files: list[bytes] = []


def _scale(rng):
    return rng.choice(("auto", "none", "none", "query", "maxabs"))


def _missing(rng):
    return rng.choice(("error", "zero", "mean", "query_min", "indicator"))


def warm() -> None:
    """Fit the rankers and models that cases score with; compile what they need."""
    logging.disable()
    if fitted:
        return
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(40, WIDTH)), rng.integers(0, 3, 40), np.arange(40) // 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.append(RankSVM(0.1, scale="none").fit(X, y, qid=qid))
        fitted.append(RankSVM(0.1, scale="query").fit(X, y, qid=qid))
        fitted.append(RankSVM(0.1, scale="none", missing="indicator").fit(X, y, qid=qid))
        fitted.append(ElasticRanker(n_passes=1, missing="query_min").fit(X, y, qid=qid))
        fitted.append(AdditiveRanker(smooth=1.0, pairs=1, bins=4).fit(X, y, qid=qid))
    files.extend([*good_files(), *(ranker.to_model().to_bytes() for ranker in fitted)])


def trial(job: Job) -> Outcome:
    """Try one hostile input a case."""
    outcome = Outcome()
    warm()
    for case, rng in job.cases(outcome):
        use = rng.choices((use_model, use_rows, use_fit, use_evaluation), (2, 4, 4, 1))[0]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                fault = use(rng)
        except ALLOWED as error:
            outcome.counts["refused" if isinstance(error, RankineError) else "refused_early"] += 1
        except Exception as error:
            outcome.fail("crashes", f"{job.name(case)}: {use.__name__}: {error!r}")
        else:
            outcome.counts["scored"] += 1
            outcome.require(not fault, "misread", f"{job.name(case)}: {fault}")
    return outcome


# ------------------------------------------------------------------------------ hostile arrays
def draw_matrix(rng, n_rows: int, width: int):
    """Return a matrix, mostly sparse and broken."""
    values = np.random.default_rng(rng.getrandbits(32)).normal(size=(n_rows, width)).round(1)
    if rng.random() < 0.2:
        return unusual_dense(rng, values)
    kind = rng.choice(("csr", "csr", "csr", "csc", "coo", "bsr", "lil", "dok", "dia"))
    shape = rng.choice(("array", "matrix"))
    X = getattr(sparse, f"{kind}_{shape}")(values)
    if kind in ("csr", "csc", "coo", "bsr"):
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            break_matrix(rng, X)
    return X


def unusual_dense(rng, values):
    """Return legal but unusual storage of a matrix, or one with extreme values."""
    edit = rng.randrange(6)
    if edit == 0:
        return np.repeat(values, 2, axis=1)[:, ::2]
    if edit == 1:
        return values.astype(rng.choice((">f8", ">f4", "<f2", "i8", "u1", "O")))
    if edit == 2:
        return np.asfortranarray(values)
    if edit == 3:
        values.flags.writeable = False
    elif edit == 4 and values.size:
        values.flat[rng.randrange(values.size)] = rng.choice(FLOATS)
    return values


def break_matrix(rng, X) -> None:
    """Change one thing of a compressed matrix or of coordinates in place."""
    names = ["indptr", "indices", "data"]
    if X.format == "coo":
        names = ["row", "col", "data"]
    name = rng.choice(names)
    array = np.array(getattr(X, name))
    edit = rng.randrange(8)
    if edit in (0, 1) and array.size:
        place = rng.randrange(array.size)
        extremes = FLOATS if name == "data" else EXTREMES
        with np.errstate(all="ignore"):
            array.flat[place] = np.asarray(rng.choice(extremes)).astype(array.dtype)
    elif edit == 2:
        array = array[: rng.randrange(len(array) + 1)]
    elif edit == 3:
        array = np.concatenate([array, array[: rng.randint(0, 3)]])
    elif edit == 4 and array.dtype != object:
        types = (">f8", "<f4", "i8") if name == "data" else (">i4", ">i8", "i8", "u4", "f8")
        array = array.astype(rng.choice(types))
    elif edit == 5 and array.ndim == 1 and len(array) > 1:
        # Duplicates and indices out of order are legal.
        k = rng.randrange(len(array) - 1)
        array[k + 1] = array[k]
    elif edit == 6:
        array = rng.choice((array[::-1], array[None], array.astype(object)))
    else:
        array.flags.writeable = False
    if name in ("row", "col"):
        coords = list(X.coords)
        coords[name == "col"] = array
        X.coords = tuple(coords)
    else:
        setattr(X, name, array)


def draw_ids(rng, n_rows: int):
    """Return query ids, often hostile."""
    ids = np.sort(np.random.default_rng(rng.getrandbits(32)).integers(0, 4, n_rows))
    edit = rng.randrange(8)
    if edit == 0 and n_rows:
        ids[rng.randrange(n_rows)] = rng.choice(EXTREMES)
    elif edit == 1:
        return rng.choice(FLOATS) * np.ones(n_rows)
    elif edit == 2:
        return ids[: rng.randrange(n_rows + 1)]
    elif edit == 3:
        return np.array([rng.choice((*EXTREMES, None, "a", 2.5, b"q")) for _ in ids], dtype=object)
    elif edit == 4:
        return ids.astype(rng.choice(("u8", "f8", ">i8", "U3", "O", "i1")))
    return ids


def draw_group(rng, n_rows: int):
    """Return sizes of lists that sum to the rows, or wrap around to them."""
    cut = rng.randint(0, n_rows)
    sizes = rng.choice((
        [cut, n_rows - cut], [2**62] * 4 + [n_rows], [2**63 - 1, 2**63 - 1, 2 + n_rows],
        [-cut, n_rows + cut], [n_rows, 2**64 - n_rows, n_rows], [2**53, n_rows], [float(n_rows)],
        [[n_rows]], [], [rng.choice(EXTREMES), n_rows],
    ))  # fmt: skip
    return np.array(sizes) if rng.random() < 0.5 else sizes


def draw_queries(rng, n_rows: int) -> dict:
    """Return query ids or sizes of lists as keyword arguments."""
    choice = rng.random()
    if choice < 0.4:
        return {"qid": np.arange(n_rows) // 3}
    if choice < 0.7:
        return {"qid": draw_ids(rng, n_rows)}
    return {"group": draw_group(rng, n_rows)}


def draw_column(rng, n_rows: int):
    """Return weights, positions or labels, often hostile."""
    random = np.random.default_rng(rng.getrandbits(32))
    values = random.integers(0, 3, n_rows).astype(rng.choice(("f8", "i8", ">f8", "f4", "?")))
    edit = rng.randrange(6)
    if edit == 0 and n_rows:
        values = values.astype(rng.choice(("f8", "O")))
        values[rng.randrange(n_rows)] = rng.choice((*EXTREMES, *FLOATS))
    elif edit == 1:
        values = values[: rng.randrange(n_rows + 1)]
    elif edit == 2:
        values = np.repeat(values, 2)[::2]
    return values


# --------------------------------------------------------------------------------------- uses
def use_rows(rng) -> str:
    """Score rows with a fitted ranker and with its model."""
    ranker, n_rows = rng.choice(fitted), rng.randint(0, 12)
    X = draw_matrix(rng, n_rows, rng.choice((WIDTH, WIDTH, WIDTH, 3, 7)))
    queries = draw_queries(rng, n_rows)
    if rng.random() < 0.5:
        return wrong_scores(ranker, X, queries, ranker.predict(X, **queries))
    scorer = Scorer(ranker.to_model())
    group = queries.get("group", [n_rows])
    scores = scorer.score(X, group=group)
    if n_rows and rng.random() < 0.3:
        scorer.explain(X, rng.choice((0, n_rows - 1, -1, n_rows, 2**62)))
    return wrong_scores(ranker, X, {"group": group}, scores)


def wrong_scores(ranker, X, queries, scores) -> str:
    """Compare with the scores of the dense copy of a matrix that scipy accepts."""
    if not sparse.issparse(X):
        return ""
    if X.format in ("csr", "csc", "bsr"):
        X.check_format(full_check=True)
    dense = X.toarray().astype(np.float64)
    if not np.isfinite(dense).all():
        return ""
    expected = ranker.predict(dense, **queries)
    return "" if np.allclose(scores, expected, rtol=1e-6, atol=1e-6) else "other scores"


def use_fit(rng) -> str:
    """Fit a ranker, or make a data set and take lists from it."""
    n_rows = rng.randint(0, 12)
    X = draw_matrix(rng, n_rows, rng.randint(1, 6))
    y, queries = draw_column(rng, n_rows), draw_queries(rng, n_rows)
    columns = {name: draw_column(rng, n_rows) for name in ("weight", "position")
               if rng.random() < 0.3}  # fmt: skip
    way = rng.randrange(4)
    if way == 0:
        data = Dataset.from_arrays(X, y, **queries, **columns)
    elif way == 1:
        data = Dataset(X, y, queries.get("qid", draw_ids(rng, n_rows)), **columns)
    else:
        ranker = rng.choice(RANKERS)(rng)
        weight = columns.get("weight")
        ranker.fit(X, y, sample_weight=weight, **queries).predict(X, **queries)
        return ""
    ranker = rng.choice(RANKERS)(rng)
    if "position" in columns and rng.random() < 0.5:
        ranker.set_params(**rng.choice(({"propensity": [1.0, 0.5]}, {"position_offset": 3})))
    data.take_queries(np.arange(data.n_queries))
    ranker.fit(data).predict(data)
    ranker.score(data)
    return ""


def use_evaluation(rng) -> str:
    """Evaluate scores against labels."""
    n_rows = rng.randint(0, 12)
    labels, scores = draw_column(rng, n_rows), draw_column(rng, n_rows)
    metric = rng.choice(("ndcg@3", "map", "mrr", "kendall", "recall@99999999999", "ndcg"))
    if rng.random() < 0.3:
        index = rankine.data.QueryIndex(
            np.arange(2), np.array([0, rng.choice(EXTREMES), n_rows]),
            rng.choice((None, np.array(draw_group(rng, n_rows)[:1] * n_rows, dtype=object))),
        )  # fmt: skip
        evaluate(metric, labels, scores, index)
    else:
        evaluate(metric, labels, scores, draw_ids(rng, n_rows))
    return ""


def use_model(rng) -> str:
    """Load a changed model file, score with it and train on from it."""
    model = LinearModel.from_bytes(restructure(rng, rng.choice(files)))
    if model.n_columns > 1000:
        return ""
    n_rows = rng.randint(1, 8)
    random = np.random.default_rng(rng.getrandbits(32))
    rows = random.normal(size=(n_rows, model.n_columns)).round(1)
    scorer = Scorer(model)
    scorer.score(sparse.csr_array(rows) if rng.random() < 0.5 else rows)
    scorer.explain(rows, 0)
    y, qid = random.integers(0, 2, n_rows), np.zeros(n_rows, dtype=int)
    y[: n_rows // 2] = 1
    kind = AdditiveRanker(smooth=1.0, bins=4, pairs=1, max_iter=5) if model.bins else RankSVM(0.1)
    kind.fit(rows, y, qid=qid, coef_init=model)
    return ""
