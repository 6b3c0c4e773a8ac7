"""What a user would pick instead, on real data sets, with equal tuning budgets."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
from papers.runs import table

from benchmarks.common.real_data import letor_folders, read_expedia, read_wands
from benchmarks.common.timing import ratio
from benchmarks.defaults import SETS as SPLIT_SETS
from benchmarks.fusion import COLLECTIONS, make_runs, read_collection
from benchmarks.instead.comparison import compare
from benchmarks.instead.data_files import split, write_parts
from benchmarks.instead.grids import EQUAL
from benchmarks.instead.letor_fold import numbered
from benchmarks.instead.presentation import is_ours, preferred
from rankine import Dataset
from rankine.data.splits import split_queries

TITLE = "Real data sets, equal tuning budgets"
SMOKE = {"sets": ["cranfield"], "seeds": [1], "repetitions": 1, "limit": 20, "most": 1}
QUICK = {"sets": ["MQ2008", "cranfield"], "seeds": [1], "repetitions": 1, "limit": 60, "most": 2}
FULL = {
    "sets": ["OHSUMED", "MQ2008", "California", "LightGBM's example", *COLLECTIONS, "MSLR-WEB10K",
             "Istella", "Yahoo", "Expedia", "WANDS"],
    "seeds": [1],
    "repetitions": 1,
    "limit": 600,
    "most": 8,
}  # fmt: skip
SHARES = (0.6, 0.2, 0.2)


def from_splits(name):
    """Return the three parts of a set of ``benchmarks.defaults``."""
    return SPLIT_SETS[name]()[0]


def from_text(name):
    """Return candidates of three retrievers: their scores and ranks, with the judged grades."""
    docs, queries, qrels = read_collection(name)
    runs = make_runs(docs, queries)
    grades = dict(zip(zip(qrels.qid, qrels.docid, strict=True), qrels.label, strict=True))
    columns = {}
    for place, run in enumerate(runs.values()):
        for query in np.unique(run.qid):
            rows = np.flatnonzero(run.qid == query)
            for rank, row in enumerate(rows[np.argsort(-run.score[rows], kind="stable")], 1):
                values = columns.setdefault((query, run.docid[row]), [0.0] * (2 * len(runs)))
                values[2 * place : 2 * place + 2] = [float(run.score[row]), 1.0 / rank]
    keys = sorted(columns)
    X = np.array([[*columns[key], np.log1p(len(docs[key[1]]))] for key in keys])
    y = np.array([grades.get(key, 0.0) for key in keys])
    codes = np.unique([query for query, _ in keys], return_inverse=True)[1]
    return split_queries(Dataset.from_arrays(X, y, codes), SHARES, random_state=0)


def from_letor(start):
    """Return the first fold of the LETOR folder whose name starts so."""
    for folder in letor_folders(dense=True)[0]:
        if folder.name.lower().startswith(start):
            return next(folder.folds())[1:]
    raise FileNotFoundError(f"RANKINE_DATA holds no folder whose name starts with {start}")


def from_rows(read):
    """Return the three parts of rows (X, y, qid)."""
    return [Dataset.from_arrays(*part) for part in split(*read(), SHARES)]


READERS = {
    "OHSUMED": partial(from_splits, "OHSUMED, list-scaled"),
    "MQ2008": partial(from_splits, "MQ2008"),
    "California": partial(from_splits, "California, raw"),
    "LightGBM's example": partial(from_splits, "LightGBM's example"),
    **{name: partial(from_text, name) for name in COLLECTIONS},
    "MSLR-WEB10K": partial(from_letor, "mslr"),
    "Istella": partial(from_letor, "istella"),
    "Yahoo": partial(from_letor, "yahoo"),
    "Expedia": partial(from_rows, read_expedia),
    "WANDS": partial(from_rows, read_wands),
}


def dense(part):
    """Return rows, labels and numbered queries of a part."""
    X = part.X.toarray() if hasattr(part.X, "toarray") else part.X
    return np.asarray(X, dtype=np.float32), part.y, numbered(part.qid)


def measure(sets, **options):
    """Compare all learners on every set that is there."""
    compared, absent = {}, []
    for name in sets:
        try:
            parts = READERS[name]()
        except FileNotFoundError as error:
            absent.append(f"{name} ({error})")
            continue
        found = compare(
            lambda folder, parts=parts: write_parts(folder, list(map(dense, parts))),
            EQUAL,
            **options,
        )
        absent += [each for each in found.pop("absent") if each not in absent]
        compared[name] = found
        print(name, file=sys.stderr, flush=True)
    return {
        "seeds": options["seeds"],
        "repetitions": options["repetitions"],
        "sets": compared,
        "absent": absent,
    }


def peer_of(found):
    """Return the peer that validation prefers, or None."""
    peers = [name for name in found["learners"] if not is_ours(name)]
    return preferred(found["learners"], peers) if peers else None


def outcome_of(found):
    """Return who wins by the interval of the preferred peer minus our preferred ranker."""
    gap = found["learners"][peer_of(found)]["against_ours"]
    if gap["low"] > 0:
        return "peer"
    return "rankine" if gap["high"] < 0 else "undecided"


def headline(results):
    """Count on how many sets a peer wins, rankine wins, or nothing is decided."""
    decided = [outcome_of(f) for f in results["sets"].values() if peer_of(f)]
    if not decided:
        return f"**{TITLE}**: no peer was installed, so nothing was compared."
    wins, losses = decided.count("rankine"), decided.count("peer")
    return (
        f"**{TITLE}: of {len(decided)} sets rankine wins {wins}, a peer wins {losses}**, and on "
        f"{len(decided) - wins - losses} the interval holds zero, which is not the same as equal."
    )


def markdown(results):
    names = [n for n in EQUAL if any(n in found["learners"] for found in results["sets"].values())]
    quality, against, cost = [], [], []
    for name, found in results["sets"].items():
        learners, ours, peer = found["learners"], found["ours"], peer_of(found)
        rows = found["rows"]
        size = [name, f"{rows['train']['rows']:,}", f"{rows['test']['queries']:,}"]
        values = (f"{learners[n]['test']:.3f}" if n in learners else "" for n in names)
        quality.append([*size, *values])
        if peer is None:
            continue
        gap = learners[peer]["against_ours"]
        shown = f"{gap['mean']:+.4f} [{gap['low']:+.4f}, {gap['high']:+.4f}]"
        against.append([name, ours, peer, shown, outcome_of(found)])
        figures = ("cpu_seconds", "peak_mb", "us_per_candidate")
        cost.append([
            name, ours, peer,
            *(f"{ratio(learners[peer][f], learners[ours][f]):.2g}" for f in figures),
        ])  # fmt: skip
    budget = results["parameters"]["most"]
    refused = [
        f"{learner} on {name}: {why}"
        for name, found in results["sets"].items()
        for learner, why in found["refused"].items()
    ]
    parts = [
        headline(results),
        (f"NDCG@10 on test queries; every learner has {budget} settings, one thread, and the one "
         "that validation queries prefer is tested once. The text collections are the candidates "
         "of three retrievers, with their scores and ranks as features. EBM regresses the labels, "
         "because it does not rank."),
        table(("set", "training rows", "test queries", *names), quality),
        ("The peer that validation prefers minus our ranker that it prefers: 95 % intervals, "
         "queries resampled."),
        table(("set", "ours", "peer", "difference", "wins"), against, left=3),
        "The peer's cost over ours: training CPU, peak memory above the rows, latency a candidate.",
        table(("set", "ours", "peer", "CPU", "memory", "latency"), cost, left=3),
    ]  # fmt: skip
    if refused:
        parts.append(f"Without figures: {'; '.join(refused)}.")
    return "\n\n".join(parts)
