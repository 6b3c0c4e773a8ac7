"""ElasticRank on purchase lists: settings chosen on held-out training lists, then tested once.

    python -m benchmarks.elastic.purchases [--train NPZ --test NPZ] [--lists 1000000]
        [--vw PREDICTIONS] [--journal FILE]

The last 20,000 lists of the training set are held out; one pass goes over all others. Steps and
objective are chosen among ``STEPS`` x ``OBJECTIVES``, then the penalty of each size of model among
``PENALTIES``; SPD's lambda among ``LAMBDAS``. What is chosen learns again from the whole training
set, and only then are the test lists read. The largest R@1 on the held-out lists decides, every
time. ``--vw`` names a file of another program's scores of the test rows, a number a line;
``--journal`` a file that remembers candidates, so that an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.common.machine import add
from benchmarks.common.workloads import AS_PRINTED, CLICK_FEATURES, click_lists
from rankine import Dataset, ElasticRanker, SPDRanker
from rankine.metrics import evaluate

HELD_OUT = 20_000
PLAIN = {"solver": "rda", "adaptive": True, "l1": 0.0, "l2": 0.0}
STEPS = tuple({**PLAIN, "eta0": eta} for eta in (0.1, 0.2, 0.4))
OBJECTIVES = ("ndcg", "recall@1", "pairwise")
PENALTIES = (0.0, 3e-6, 1e-5, 3e-5)
CAPS = {"any size": None, "under 20,000": 19_999, "under 2,000": 1_999}
LAMBDAS = (1e-6, 1e-5, 1e-4)
MEASURES = ("recall@1", "recall@4", "ndcg@10")


def read_npz(path):
    """Lists from an npz file with ``data``, ``indices``, ``indptr``, ``y`` and ``qid``."""
    with np.load(path) as file:
        shape = tuple(file["shape"]) if "shape" in file else (len(file["y"]), CLICK_FEATURES)
        X = sparse.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=shape)
        return Dataset.from_arrays(X, file["y"].astype(float), file["qid"])


def part(data, first, last):
    """Return lists ``first`` to ``last - 1``."""
    a, b = data.queries.starts[[first, last]]
    p, q = data.X.indptr[[a, b]]
    X = sparse.csr_matrix(
        (data.X.data[p:q], data.X.indices[p:q], data.X.indptr[a : b + 1] - p),
        shape=(b - a, data.n_features),
    )
    return Dataset.from_arrays(X, data.y[a:b], data.qid[a:b])


def judge(scores, data):
    """Return R@1, R@4 and NDCG@10 of a vector of scores."""
    return {m: round(float(evaluate(m, data.y, scores, data.queries)), 5) for m in MEASURES}


def learn(parameters, train):
    """Train for one pass; return the ranker and the CPU seconds."""
    begun = time.process_time()
    ranker = ElasticRanker(**{**AS_PRINTED, "random_state": 1, **parameters}).fit(train)
    return ranker, round(time.process_time() - begun, 2)


class Journal:
    """Results of candidates, one JSON line each, kept across runs when a file is named."""

    def __init__(self, path):
        self.path = None if path is None else Path(path)
        lines = self.path.read_text("utf-8").splitlines() if path and self.path.exists() else []
        self.known = dict(json.loads(line) for line in lines)

    def ask(self, compute, *key):
        """Return the stored result of ``compute(*key)``, or compute and store it."""
        name = json.dumps([compute.__name__, *key])
        if name not in self.known:
            self.known[name] = compute(*key)
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, self.known[name]]) + "\n")
        print(name, self.known[name], flush=True)
        return self.known[name]


class Candidates:
    """Candidates, each learned from ``train`` and judged on ``held_out``."""

    def __init__(self, train, held_out):
        self.train, self.held_out = train, held_out

    def steps(self, parameters):
        """Measure the quality of one choice of step size and objective."""
        ranker, _ = learn(parameters, self.train)
        return judge(ranker.predict(self.held_out), self.held_out)

    def sizes(self, parameters):
        """Return number of weights and quality for every limit on the number of weights."""
        by_size = {}
        for size, max_nonzero in CAPS.items():
            ranker, _ = learn({**parameters, "max_nonzero": max_nonzero}, self.train)
            quality = judge(ranker.predict(self.held_out), self.held_out)
            by_size[size] = {"weights": int(np.count_nonzero(ranker.coef_)), **quality}
        return by_size

    def spd(self, lam):
        """Measure the quality of SPD."""
        ranker = SPDRanker(n_steps=1_000_000, l2=lam, random_state=1).fit(self.train)
        return judge(ranker.predict(self.held_out), self.held_out)


def best(tried):
    """Return the candidate with the largest R@1."""
    return max(tried, key=lambda pair: pair[1]["recall@1"])[0]


def choose(candidates, journal):
    """Try all candidates; return all trials and the best ones."""
    named = [{**s, "objective": o} for s, o in product(STEPS, OBJECTIVES)]
    steps = [(p, journal.ask(candidates.steps, p)) for p in named]
    best_steps = best(steps)
    sizes = [(l1, journal.ask(candidates.sizes, {**best_steps, "l1": l1})) for l1 in PENALTIES]
    penalties = {size: best([(l1, by_size[size]) for l1, by_size in sizes]) for size in CAPS}
    spd = [(lam, journal.ask(candidates.spd, lam)) for lam in LAMBDAS]
    return {"steps": steps, "l1": sizes, "spd lam": spd}, best_steps, penalties, best(spd)


def margins(ours, theirs, test):
    """Return mean differences ours - theirs over the lists, with standard errors."""
    out = {}
    for name in MEASURES:
        gap = np.subtract(
            evaluate(name, test.y, ours, test.queries, per_query=True),
            evaluate(name, test.y, theirs, test.queries, per_query=True),
        )
        gap = gap[~np.isnan(gap)]
        out[name] = [round(float(gap.mean()), 5), round(float(gap.std() / np.sqrt(len(gap))), 5)]
    return out


def final(chosen, penalties, lam, train, test, others):
    """Train the chosen settings and evaluate them on the test lists."""
    rows = {}
    scores = {}
    for size, l1 in penalties.items():
        ranker, seconds = learn({**chosen, "l1": l1, "max_nonzero": CAPS[size]}, train)
        scores[size] = ranker.predict(test)
        weights = int(np.count_nonzero(ranker.coef_))
        rows[f"elastic, {size}"] = {"l1": l1, "weights": weights, "cpu_s": seconds}
        rows[f"elastic, {size}"] |= judge(scores[size], test)
    spd = SPDRanker(n_steps=1_000_000, l2=lam, random_state=1).fit(train)
    others = {**others, "spd 1M pairs": spd.predict(test)}
    for name, values in others.items():
        rows[name] = judge(values, test)
        rows[name]["any size less this"] = margins(scores["any size"], values, test)
    for name, row in rows.items():
        print(name, row, flush=True)
    return rows


def measure(train, test, others, journal):
    """Choose, then test; everything as a dictionary."""
    n = train.n_queries
    n_held_out = min(HELD_OUT, n // 2)
    candidates = Candidates(part(train, 0, n - n_held_out), part(train, n - n_held_out, n))
    tried, best_steps, penalties, lam = choose(candidates, journal)
    return {
        "lists": {"train": n, "held_out": n_held_out, "test": test.n_queries},
        "tried": tried,
        "chosen": {**best_steps, "l1": penalties, "spd lam": lam},
        "test": final(best_steps, penalties, lam, train, test, others),
    }


def generated(lists, n_test=20_000):
    """Measure on generated lists."""
    train, test = click_lists(lists, seed=1), click_lists(n_test, seed=2)
    add("elastic", "clicks", measure(train, test, {}, Journal(None)))


def smoke():
    """Run the smallest size, as the tests do."""
    generated(200, 100)


def quick():
    """Measure 40,000 lists."""
    generated(40_000)


def full():
    """Measure a million lists (about 8 GB of memory)."""
    generated(1_000_000)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train")
    parser.add_argument("--test")
    parser.add_argument("--lists", type=int, default=1_000_000)
    parser.add_argument("--vw")
    parser.add_argument("--journal")
    options = parser.parse_args()
    if options.train is None:
        generated(options.lists)
        return
    other_scores = {"vowpal wabbit, logistic": np.loadtxt(options.vw)} if options.vw else {}
    train, test = read_npz(options.train), read_npz(options.test)
    add("elastic", "clicks", measure(train, test, other_scores, Journal(options.journal)))


if __name__ == "__main__":
    main()
