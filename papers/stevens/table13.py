"""Table 1.3: passive-aggressive steps and sparse domination rank on topics of documents."""

from __future__ import annotations

import sys

import numpy as np
from benchmarks.common.real_data import rcv1_is_there, read_imdb, read_rcv1, read_reuters

from papers.claims import paired
from papers.runs import table
from papers.stevens.documents import (
    CANDIDATES,
    KINDS,
    LEAST_POSITIVES,
    MEASURES,
    PA,
    PAPER,
    ZEROS,
    one_topic,
    split,
)

TITLE = "Table 1.3: topics of documents"
SMOKE = {"seeds": [1], "topics": 1, "rows": {"RCV1": 1000, "Reuters": 1000, "IMDB": 1000}}
QUICK = {"seeds": [1], "topics": 2, "rows": {"RCV1": 4000, "Reuters": 4000, "IMDB": 2000}}
FULL = {"seeds": [1], "topics": 999, "rows": {"RCV1": 804_414, "Reuters": 25_000, "IMDB": 6_000}}
NAMES = (*MEASURES, ZEROS)
METHODS = (PA, *KINDS)
AP = "Avg. Precision"


def collections():
    """Return documents, 0/1 topics and topic names by collection; the paper's own if available."""
    has_rcv1 = {"RCV1": read_rcv1()[:3]} if rcv1_is_there() else {}
    return {**has_rcv1, "Reuters": read_reuters()[:3], "IMDB": read_imdb()}


def sampled(X, Y, rows, seed):
    """Draw at most a number of documents without replacement, in order."""
    if X.shape[0] <= rows:
        return X, Y
    rows_drawn = np.sort(np.random.default_rng(seed).choice(X.shape[0], rows, replace=False))
    return X[rows_drawn], Y[rows_drawn]


def run(X, Y, names, seed, topics):
    """Measure all topics of one split."""
    parts, labels, topic_count, left_out = split(X, Y, names, seed, topics)
    by_topic = {}
    for t, name in enumerate(topic_count):
        by_topic[name] = one_topic(parts, [part[:, t] for part in labels], seed)
        print(f"split {seed}: {name}, {t + 1}/{len(topic_count)}", file=sys.stderr, flush=True)
    return {"seed": seed, "left_out": left_out, "topics": by_topic}


def measure(seeds, topics, rows):
    """Measure every collection: all topics of every split, and their means."""
    results = {}
    for name, (X, Y, names) in collections().items():
        splits = [run(*sampled(X, Y, rows[name], seed), names, seed, topics) for seed in seeds]
        results[name] = {
            "documents": min(X.shape[0], rows[name]),
            "of_documents": X.shape[0],
            "terms": X.shape[1],
            "splits": splits,
            "means": means(splits),
            "against_PA": {
                kind: paired(values(splits, kind, AP) - values(splits, PA, AP)) for kind in KINDS
            },
        }
    return {
        "seeds": seeds,
        "repetitions": len(seeds),
        "candidates": CANDIDATES,
        "collections": results,
        "absent": [] if "RCV1" in results else ["RCV1 (the folder rcv1 of RANKINE_DATA)"],
    }


def values(splits, method, name):
    """Return a measure of a method on every topic of every split."""
    return np.array(
        [
            split_result[method]["test"][name]
            for s in splits
            for split_result in s["topics"].values()
        ]
    )


def means(splits):
    """Return the mean over topics and splits by method and measure."""
    return {
        method: {name: float(values(splits, method, name).mean()) for name in NAMES}
        for method in METHODS
    }


def markdown(results):
    how = (
        "Half of the documents train, a quarter chooses parameters by average precision, a quarter "
        "tests; every topic is one ranking task over the collection, and all topics are run that "
        f"have {LEAST_POSITIVES} positives in every part. *PA* is passive-aggressive SPD with the "
        "last iterate (PAMIR). *domination, l1* is the paper's; *l1 + l2* adds a little l2. Every "
        f"method has {results['candidates']} candidates. Means over topics."
    )
    parts = [how]
    for name, collection in results["collections"].items():
        counts = [len(s["topics"]) for s in collection["splits"]]
        parts.append(
            f"**{name}**: {collection['documents']:,} of {collection['of_documents']:,} documents, "
            f"{collection['terms']:,} terms, {' and '.join(map(str, counts))} topics "
            f"({collection['splits'][0]['left_out']} left out)"
        )
        rows = []
        for measured in NAMES:
            form = ".1f" if measured == ZEROS else ".4f"
            cells = [format(collection["means"][m][measured], form) for m in METHODS]
            paper = [format(v, form) for v in PAPER[measured]] if measured in PAPER else ["", ""]
            rows.append([measured.strip(), *cells, *paper])
        head = ["measure", *METHODS, "RCV1, paper: PAMIR", "domination"]
        parts += [table(head, rows), outcome(collection)]
    return "\n\n".join(parts)


def outcome(one):
    """Compare the sparse models with PA."""
    sentences = []
    for kind, found in one["against_PA"].items():
        low, high = found["interval"]
        errors = one["means"][kind]["All Pairs Error"] / one["means"][PA]["All Pairs Error"]
        sentences.append(
            f"{kind}: {found['difference']:+.3f} [{low:+.3f}, {high:+.3f}] average precision "
            f"against PA (paper -0.035), {one['means'][kind][ZEROS]:.1f} % of the weights zero "
            f"(paper 98.8), {errors:.2f} times PA's all-pairs error (paper 1.71)"
        )
    return "; ".join(sentences) + "."
