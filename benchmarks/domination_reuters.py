"""Domination rank against passive-aggressive SPD on Reuters-21578, in the form of table 1.3.

    RANKINE_DATA=FOLDER python -m benchmarks.domination_reuters [--seed 0] [--topics N]

The paper's protocol: half of the documents train, a quarter chooses l1 (and C), a quarter tests;
every topic is one ranking task over the whole collection; topics with too few positives in a part
are left out and named. ``--times`` also trains every topic with l1 and with l2 alone (both to the
same relative gap) and compares the time.
"""

from __future__ import annotations

import argparse
import lzma
import os
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.machine import save
from rankine import DominationRanker, SPDRanker, fit_topics
from rankine.metrics import evaluate

MEASURES = {
    "Avg. Precision": "map",
    "Precision @ 10": "p@10",
    "Domination Error": "domination-error:ties=strict",
    "  ties as errors": "domination-error",
    "All Pairs Error": "pairwise-error",
}
#: The paper's own figures on RCV1: PAMIR, domination rank.
PAPER = {
    "Avg. Precision": (0.705, 0.670),
    "Precision @ 10": (0.915, 0.918),
    "Domination Error": (0.974, 0.976),
    "All Pairs Error": (0.014, 0.024),
    "% Zero Weights": (78.1, 98.8),
}
C_GRID = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]


def read_reuters(folder):
    """Matrix of documents, indicator matrix of topics, topic names."""
    rows, ids = [], []
    for part in ("vectors_train.dat.xz", "vectors_test.dat.xz"):
        with lzma.open(folder / part, "rt", encoding="ascii") as file:
            for line in file:
                did, *terms = line.split()
                ids.append(int(did))
                rows.append([term.split(":") for term in terms])
    place = {did: i for i, did in enumerate(ids)}
    lengths = [len(row) for row in rows]
    indices = np.array([int(j) for row in rows for j, _ in row])
    values = np.array([float(v) for row in rows for _, v in row])
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    X = sparse.csr_matrix((values, indices, pointers))
    X.sort_indices()
    topics: dict[str, list[int]] = {}
    with lzma.open(folder / "topics.qrels.xz", "rt", encoding="ascii") as file:
        for line in file:
            topic, did, relevant = line.split()
            if relevant == "1" and int(did) in place:
                topics.setdefault(topic, []).append(place[int(did)])
    names = sorted(topics)
    Y = np.zeros((len(ids), len(names)))
    for t, name in enumerate(names):
        Y[topics[name], t] = 1.0
    return X, Y, names


def measure(scores, y, coef):
    found = {name: float(evaluate(metric, y, scores)) for name, metric in MEASURES.items()}
    return {**found, "% Zero Weights": 100.0 * float(np.mean(coef == 0))}


def passive_aggressive(train, valid, seed):
    """Weights of the C with the best average precision on the validation part."""
    best, chosen = -1.0, None
    for C in C_GRID:
        ranker = SPDRanker("passive-aggressive", C=C, random_state=seed, average=False)
        ranker.fit(*train)
        value = float(evaluate("map", valid[1], valid[0] @ ranker.coef_))
        if value > best:
            best, chosen = value, ranker.coef_
    return chosen


def training_times(X, Y, bundle, names, tol):
    """CPU seconds with each topic's l1, and with l2 alone, to the same relative gap."""
    seconds = {"l1": 0.0, "l2": 0.0}
    for t, name in enumerate(names):
        l1 = bundle.provenance["topics"][name]["l1"]
        for kind, parameters in (("l1", {"l1": l1}), ("l2", {"l1": 0.0, "l2": l1})):
            begun = time.process_time()
            DominationRanker(**parameters, tol=tol, n_threads=1).fit(X, Y[:, t])
            seconds[kind] += time.process_time() - begun
    return seconds


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--topics", type=int, default=None, help="only the most frequent")
    arguments.add_argument("--min-positives", type=int, default=5, help="in every part")
    arguments.add_argument("--times", action="store_true")
    options = arguments.parse_args()
    X, Y, names = read_reuters(Path(os.environ["RANKINE_DATA"]) / "reuters21578_lyrl")
    order = np.random.default_rng(options.seed).permutation(X.shape[0])
    half, quarter = len(order) // 2, 3 * len(order) // 4
    parts = [np.sort(p) for p in np.split(order, [half, quarter])]
    counts = np.array([Y[part].sum(axis=0) for part in parts]).min(axis=0)
    left_out = [
        name for name, count in zip(names, counts, strict=True) if count < options.min_positives
    ]
    kept = np.flatnonzero(counts >= options.min_positives)
    if options.topics:
        kept = np.sort(kept[np.argsort(-Y[:, kept].sum(axis=0))][: options.topics])
    names = [names[t] for t in kept]
    Y = Y[:, kept]
    (Xa, Ya), (Xb, Yb), (Xc, Yc) = [(X[part], Y[part]) for part in parts]
    print(
        f"{X.shape[0]:,} documents, {X.shape[1]:,} terms, {len(names)} topics; left out with fewer "
        f"than {options.min_positives} positives in a part: {', '.join(left_out)}"
    )
    bundle = fit_topics(
        Xa, Ya, topics=names, eval_set=(Xb, Yb), metric="map", n_steps=25, min_ratio=0.005
    )
    rows = {}
    for t, name in enumerate(names):
        sparse_coef = bundle[name].to_dense()
        dense_coef = passive_aggressive((Xa, Ya[:, t]), (Xb, Yb[:, t]), options.seed)
        rows[name] = {
            "positives": int(Y[:, t].sum()),
            "pa": measure(Xc @ dense_coef, Yc[:, t], dense_coef),
            "domination": measure(Xc @ sparse_coef, Yc[:, t], sparse_coef),
        }
    table = {
        measure_name: tuple(
            float(np.mean([row[kind][measure_name] for row in rows.values()]))
            for kind in ("pa", "domination")
        )
        for measure_name in (*MEASURES, "% Zero Weights")
    }
    print(f"\n{'':18s} {'SPD PA':>9s} {'Domination':>11s}     paper: PAMIR, Domination")
    for name, (pa, domination) in table.items():
        paper = PAPER.get(name)
        said = "" if paper is None else f"{paper[0]:9} {paper[1]:9}"
        worse = "  worse all-pairs error" if "All" in name and domination > pa else ""
        print(f"{name:18s} {pa:9.3f} {domination:11.3f}     {said}{worse}")
    results = {"table": table, "topics": rows, "left_out": left_out, "seed": options.seed}
    if options.times:
        results["seconds"] = training_times(Xa, Ya, bundle, names, 1e-3)
        print("CPU seconds of all topics to a relative gap of 1e-3:", results["seconds"])
    save("domination_reuters", results)


if __name__ == "__main__":
    main()
