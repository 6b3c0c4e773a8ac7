"""The peers: how each is trained on rows that were read, and how it scores.

A learner takes (X, y, qid, setting) and gives (score, size): a function of rows, and the bytes of
the stored model. Runs in whatever Python has the peer, so nothing of rankine is imported here. One
thread everywhere.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

ROUNDS = 100


def group_sizes(qid):
    """Return the number of rows of each query; the rows of a query are contiguous."""
    return np.diff(np.flatnonzero(np.r_[True, qid[1:] != qid[:-1], True]))


def sampled_pairs(y, qid, count, seed):
    """Sample pairs (higher row, lower row): a query, then two rows of different labels."""
    rng = np.random.default_rng(seed)
    sizes = group_sizes(qid)
    starts = np.r_[0, np.cumsum(sizes)]
    pairs, rows_of_query = [], 0
    while rows_of_query < count:
        query = rng.integers(0, len(sizes), 2_000_000)
        a, b = (
            starts[query] + (rng.random(len(query)) * sizes[query]).astype(np.int64) for _ in "ab"
        )
        selected = y[a] > y[b]
        pairs.append(np.stack([a[selected], b[selected]]))
        rows_of_query += int(selected.sum())
    return np.concatenate(pairs, axis=1)[:, :count]


def sgd_on_pairs(X, y, qid, setting):
    """Train scikit-learn's SGDClassifier on differences of sampled pairs."""
    from sklearn.linear_model import SGDClassifier

    high, low = sampled_pairs(y, qid, setting["pairs"], setting["seed"])
    difference = X[high] - X[low]
    sign = np.where(np.arange(len(high)) % 2, 1.0, -1.0)
    if sparse.issparse(difference):
        difference = sparse.diags(sign) @ difference
    else:
        difference = sign[:, None] * difference
    model = SGDClassifier(
        loss="hinge", fit_intercept=False, alpha=setting["alpha"], random_state=setting["seed"]
    ).fit(difference, sign)
    return model.decision_function, len(pickle.dumps(model))


def booster(X, y, qid, setting):
    """Train an XGBoost model of rank:ndcg; trees unless the setting says otherwise."""
    import xgboost as xgb

    common = {"objective": "rank:ndcg", "nthread": 1, "verbosity": 0}
    options = {key: value for key, value in setting.items() if key != "rounds"}
    data = xgb.DMatrix(X, y, group=group_sizes(qid), nthread=1)
    return xgb.train({**common, **options}, data, setting.get("rounds", ROUNDS))


def xgboost(X, y, qid, setting):
    """Train XGBoost's trees."""
    model = booster(X, y, qid, setting)
    model.set_param({"nthread": 1})
    return model.inplace_predict, len(model.save_raw("ubj"))


def xgboost_linear(X, y, qid, setting):
    """Train XGBoost's gblinear, which has no in-place prediction."""
    import xgboost as xgb

    model = booster(X, y, qid, {"booster": "gblinear", **setting})
    return lambda rows: model.predict(xgb.DMatrix(rows, nthread=1)), len(model.save_raw("ubj"))


def lightgbm(X, y, qid, setting):
    """Train LightGBM's lambdarank."""
    import lightgbm as lgb

    common = {"objective": "lambdarank", "num_threads": 1, "verbosity": -1}
    options = {key: value for key, value in setting.items() if key != "rounds"}
    data = lgb.Dataset(X, y, group=group_sizes(qid), free_raw_data=True)
    model = lgb.train({**common, **options}, data, setting.get("rounds", ROUNDS))
    return lambda rows: model.predict(rows, num_threads=1), len(model.model_to_string())


def catboost(X, y, qid, setting):
    """Train CatBoost's YetiRank."""
    from catboost import CatBoost, Pool

    options = {key: value for key, value in setting.items() if key not in ("rounds", "seed")}
    common = {"loss_function": "YetiRank", "thread_count": 1, "verbose": False}
    fixed = {**common, "allow_writing_files": False, "random_seed": setting["seed"]}
    rounds = setting.get("rounds", ROUNDS)
    model = CatBoost({**fixed, **options, "iterations": rounds})
    model.fit(Pool(X, y, group_id=qid))
    with tempfile.TemporaryDirectory() as folder:
        model.save_model(str(Path(folder) / "model.cbm"))
        size = (Path(folder) / "model.cbm").stat().st_size
    return lambda rows: model.predict(rows, thread_count=1), size


def explainable_boosting(X, y, qid, setting):
    """Train an explainable boosting machine (EBM) on the labels, which does not rank by lists."""
    from interpret.glassbox import ExplainableBoostingRegressor

    del qid
    options = {key: value for key, value in setting.items() if key != "seed"}
    model = ExplainableBoostingRegressor(n_jobs=1, random_state=setting["seed"], **options)
    model.fit(X, y)
    return model.predict, len(pickle.dumps(model))


def rlscore(X, y, qid, setting):
    """Train RLScore's query-wise RankRLS, by conjugate gradients if rows are sparse."""
    from rlscore.learner import CGRankRLS, QueryRankRLS

    regularizer = setting["regparam"]
    if sparse.issparse(X):
        learner = CGRankRLS(X.astype(np.float64), y, regparam=regularizer, qids=qid)
    else:
        learner = QueryRankRLS(X.astype(np.float64), y, qid, regparam=regularizer)
    weights = learner.predictor.W
    return learner.predict, np.asarray(weights, dtype=np.float64).nbytes


def dlib_pairs(X, y, qid):
    """Build dlib's queries: relevant rows (label above the smallest) against the others."""
    import dlib

    def row(i):
        if sparse.issparse(X):
            a, b = X.indptr[i], X.indptr[i + 1]
            pairs = zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)
            return dlib.sparse_vector([dlib.pair(j, v) for j, v in pairs])
        return dlib.vector(X[i].tolist())

    wide = sparse.issparse(X)
    queries = dlib.sparse_ranking_pairs() if wide else dlib.ranking_pairs()
    starts = np.r_[0, np.cumsum(group_sizes(qid))]
    for a, b in zip(starts[:-1], starts[1:], strict=True):
        relevant = y[a:b] > y[a:b].min()
        if relevant.any():
            pair = dlib.sparse_ranking_pair() if wide else dlib.ranking_pair()
            for i in range(a, b):
                (pair.relevant if relevant[i - a] else pair.nonrelevant).append(row(i))
            queries.append(pair)
    return queries


def dlib(X, y, qid, setting):
    """Train dlib's svm_rank_trainer from rows in its own containers."""
    import dlib as library

    queries = dlib_pairs(X, y, qid)
    trainer = (
        library.svm_rank_trainer_sparse() if sparse.issparse(X) else library.svm_rank_trainer()
    )
    trainer.c = setting["C"]
    if "epsilon" in setting:
        trainer.epsilon = setting["epsilon"]
    model = None

    def train():
        nonlocal model
        model = trainer.train(queries)

    def result():
        weights = np.zeros(X.shape[1])
        if sparse.issparse(X):
            for one in model.weights:
                weights[one.first] = one.second
        else:
            weights[:] = list(model.weights)
        return lambda rows: rows @ weights, len(pickle.dumps(model))

    return Prepared(train, result)


class TextRows:
    """Rows in Vowpal Wabbit's text, written before the clock starts."""

    def __init__(self, X, y, folder, name):
        self.path = Path(folder) / name
        rows = sparse.csr_matrix(X)
        with self.path.open("w", encoding="ascii") as file:
            for i, label in enumerate(y):
                a, b = rows.indptr[i], rows.indptr[i + 1]
                values = zip(rows.indices[a:b].tolist(), rows.data[a:b].tolist(), strict=True)
                file.write(f"{label:g} | " + " ".join(f"{j}:{v:.6g}" for j, v in values) + "\n")


def vowpal_wabbit(X, y, qid, setting):
    """Train Vowpal Wabbit: pointwise, logistic loss for binary labels, squared loss otherwise."""
    from vowpalwabbit import Workspace

    folder = tempfile.mkdtemp(dir=os.environ.get("RANKINE_WORKER_FOLDER"))
    binary = len(np.unique(y)) == 2
    loss = "logistic" if binary else "squared"
    labels = np.where(y > y.min(), 1.0, -1.0) if binary else y
    text = TextRows(X, labels, folder, "train.vw")
    model = Path(folder) / "model.vw"
    options = f"-b 20 --loss_function {loss} -l {setting['rate']} --quiet"
    if setting["passes"] > 1:
        options += f" --passes {setting['passes']} --cache_file {folder}/cache -k --holdout_off"

    def train():
        Workspace(f"-d {text.path} {options} -f {model}").finish()

    def score(rows):
        path = TextRows(rows, np.ones(rows.shape[0]), folder, "rows.vw").path
        out = Path(folder) / "scores.txt"
        command = f"-t -i {model} -d {path} -r {out} --quiet --loss_function {loss}"
        Workspace(command).finish()
        return np.loadtxt(out)

    return Prepared(train, lambda: (score, model.stat().st_size))


class Prepared(NamedTuple):
    """A learner whose input had to be made first: only ``train`` is on the clock."""

    train: Callable[[], None]
    #: What other learners return, after training.
    result: Callable[[], tuple]


#: Learner -> function, and the package it comes from.
LEARNERS = {
    "scikit-learn SGD on pairs": (sgd_on_pairs, "sklearn"),
    "XGBoost trees": (xgboost, "xgboost"),
    "XGBoost gblinear": (xgboost_linear, "xgboost"),
    "LightGBM lambdarank": (lightgbm, "lightgbm"),
    "CatBoost YetiRank": (catboost, "catboost"),
    "EBM": (explainable_boosting, "interpret"),
    "Vowpal Wabbit": (vowpal_wabbit, "vowpalwabbit"),
    "RLScore": (rlscore, "rlscore"),
    "dlib": (dlib, "dlib"),
}
