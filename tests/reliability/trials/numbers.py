"""Compare metrics, lazy updates and pair counts of small random lists with slow definitions.

The lists are short, with many ties, queries of one document or one label, and margins of exactly 1:
the cases in which fast code tends to be wrong.
"""

from __future__ import annotations

import numpy as np

from rankine import Dataset
from rankine.losses.active_pairs import HingeRisk, SquaredHingeRisk
from rankine.losses.list_objectives import parse_objective
from rankine.losses.pair_queries import PairQueries, query_omega
from rankine.losses.pairwise.hinge import Hinge
from rankine.metrics import evaluate
from rankine.solvers.one_pass import OnePassLearner
from rankine.updates import AdaptiveRda, Fobos, Psgd, Rda, Tgd
from reference import ranking_metrics as slow
from reference.elastic_rank import Eager, slow_run
from reference.pairs import pair_risk
from reliability.harness.outcome import Job, Outcome

#: Metric -> value for the labels in ranked order.
METRICS = {
    "ndcg": slow.ndcg,
    "ndcg@2": lambda order: slow.ndcg(order, 2),
    "ndcg@3:discount=letor": lambda order: slow.ndcg(order, 3, kind="letor"),
    "map": slow.average_precision,
    "p@3": lambda order: slow.precision(order, 3),
    "recall@2": lambda order: slow.recall(order, 2),
    "mrr": slow.reciprocal_rank,
    "err": slow.err,
    "rbp": slow.rbp,
}
PAIRS = {
    "auc": slow.roc_area,
    "pairwise-error": slow.pairwise_error,
    "domination-error:ties=errors": slow.domination_error,
}
SHARED = {"eta0": 0.5, "l1": 0.01, "l2": 0.02}
OPTIMIZERS = {
    "rda": (Rda(0.5, 0.5, 0.01, 0.02), SHARED),
    "adaptive": (AdaptiveRda(0.5, 0.01, 0.02), SHARED),
    "fobos": (Fobos(0.5, 0.5, 0.01, 0.02), SHARED),
    "psgd": (Psgd(0.5, 0.5, 0.02, 0.1, 5), {"eta0": 0.5, "l2": 0.02, "theta": 0.1, "every": 5}),
    "tgd": (Tgd(0.5, 0.5, 0.02, 0.4, 3), {"eta0": 0.5, "l1": 0.02, "theta": 0.4, "every": 3}),
}


def metrics(rng) -> str:
    """Compare every metric on a few queries, with ties in file order; empty if all agree."""
    queries = []
    for _ in range(rng.randint(1, 3)):
        n = rng.randint(1, 8) if rng.random() < 0.97 else rng.randint(65, 90)
        labels = [rng.randint(0, 3) for _ in range(n)]
        queries.append((labels, [rng.choice([-1.5, 0.0, 0.25, 2.0]) for _ in range(n)]))
    y = [label for labels, _ in queries for label in labels]
    s = [score for _, scores in queries for score in scores]
    qid = [q for q, (labels, _) in enumerate(queries) for _ in labels]
    for name, value in {**METRICS, **PAIRS}.items():
        found = [
            value(labels, scores) if name in PAIRS else value(slow.ranked(labels, scores))
            for labels, scores in queries
        ]
        empty = np.nan if name in PAIRS else 0.0
        wanted = np.array([empty if one is None else one for one in found])
        metric = name if name in PAIRS else f"{name}:ties=file"
        got = evaluate(metric, y, s, qid, per_query=True)
        if not np.allclose(got, wanted, rtol=0, atol=1e-12, equal_nan=True):
            return f"{name} is {got} instead of {wanted} for {queries}"
    return ""


def updates(rng) -> str:
    """Compare one pass of a lazy optimiser with its textbook form."""
    chance = np.random.default_rng(rng.getrandbits(32))
    sizes = chance.integers(2, 5, 12)
    X = chance.normal(size=(int(sizes.sum()), 6)) * (chance.random((int(sizes.sum()), 6)) < 0.4)
    y = chance.integers(0, 3, len(X)).astype(float)
    data = Dataset.from_arrays(X, y, np.repeat(np.arange(12), sizes))
    name, batch = rng.choice(list(OPTIMIZERS)), rng.choice((1, 1, 3))
    spec, options = OPTIMIZERS[name]
    objective = parse_objective("pairwise")
    learner = OnePassLearner(spec, objective, 6, batch)
    learner.learn(data)
    wanted = slow_run(data, objective, Eager(name, 6, **options), batch=batch)
    got = learner.coef()
    if np.abs(got - wanted).max() <= 1e-12 and ((got == 0) == (wanted == 0)).all():
        return ""
    return f"{name} in batches of {batch}: {got} instead of {wanted}"


def pairs(rng) -> str:
    """Compare the risk and gradient of all pairs, by sorted counts and by listing the pairs."""
    chance = np.random.default_rng(rng.getrandbits(32))
    m = int(chance.integers(2, 24))
    p = chance.integers(-3, 4, m) * 0.5 if rng.random() < 0.6 else chance.normal(size=m) * 1.5
    y = chance.integers(0, 4, m).astype(float)
    qid = chance.integers(0, 3, m)
    if not any(len(set(y[qid == q])) > 1 for q in set(qid.tolist())):
        return ""
    loss = rng.choice(("hinge", "squared_hinge"))
    normalization = rng.choice(("query", "pair", "sum"))
    kind = HingeRisk if loss == "hinge" else SquaredHingeRisk
    queries = PairQueries.from_dataset(Dataset.from_arrays(np.zeros((m, 1)), y, qid), None)
    risk = kind(Hinge(), queries, query_omega(normalization, queries.totals, queries), "tree", 1)
    value, slope = risk.evaluate(np.asarray(p, dtype=np.float64))
    wanted, wanted_slope = pair_risk(p, y, qid, loss, normalization)
    size = max(1.0, abs(wanted))
    if abs(value - wanted) <= 1e-9 * size and np.abs(slope - wanted_slope).max() <= 1e-9 * size:
        return ""
    return f"{loss} {normalization}: {value} instead of {wanted} for {p.tolist()} {y.tolist()}"


def trial(job: Job) -> Outcome:
    """Draw comparisons and make them."""
    outcome = Outcome()
    for case, rng in job.cases(outcome):
        compare = rng.choice((metrics, metrics, updates, pairs))
        wrong = compare(rng)
        outcome.counts[compare.__name__] += 1
        outcome.require(not wrong, "misread", f"{job.name(case)}: {wrong}")
    return outcome


def warm() -> None:
    """Load the compiled kernels before children are forked."""
    import random

    for seed in range(3):
        for compare in (metrics, updates, pairs):
            compare(random.Random(seed))
