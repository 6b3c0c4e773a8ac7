"""Learned fusion of three retrievers on four classic collections, compared with fixed weights.

The runs are made here: BM25 of SQLite's FTS5 (with its Porter stemmer), cosine of character
n-grams, and latent semantic vectors (truncated SVD). Every figure is held out: five folds of
queries, weights and normalisation chosen on the other four.

How weights are made of the candidates' values is a rule, and rankine's was chosen on these same
collections. So each collection is also fused by the rule that is best on the mean of the others,
and two more, from LETOR's columns, were never looked at before the rule was fixed.

    python -m benchmarks fusion --full
"""

from __future__ import annotations

import json
import lzma
import os
import re
import sqlite3
import time
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from benchmarks.common.machine import save
from benchmarks.common.timing import spread
from rankine import Dataset, load
from rankine.data.dataset import concat
from rankine.evaluation import fusion
from rankine.evaluation.fusion import fuse
from rankine.evaluation.trec import Qrels, Run

COLLECTIONS = ("cacm", "cisi", "cranfield", "medline")
DEPTH = 100


def folder():
    """Return the folder of the collections, or None."""
    path = Path(os.environ.get("RANKINE_DATA", "")) / "text_collections"
    return path if path.is_dir() else None


def read_collection(name):
    """Read documents (id -> text), queries (id -> text) and judgements."""
    path = folder() / name
    with lzma.open(path / "docs.jsonl.xz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    docs = {row["id"]: f"{row['title']} {row['text']}" for row in rows}
    with lzma.open(path / "queries.tsv.xz", "rt", encoding="utf-8") as file:
        queries = dict(line.rstrip("\n").split("\t", 1) for line in file)
    with lzma.open(path / "qrels.txt.xz", "rt", encoding="utf-8") as file:
        lines = [line.split() for line in file]
    qid, _, docid, grade = (np.array(column) for column in zip(*lines, strict=True))
    return docs, queries, Qrels(qid, docid, grade.astype(float))


def make_runs(docs, queries):
    """Create the runs of three different retrievers."""
    document_tokens = {key: re.findall(r"[a-z0-9]+", text.lower()) for key, text in docs.items()}
    query_tokens = {key: re.findall(r"[a-z0-9]+", text.lower()) for key, text in queries.items()}
    ids = np.array(list(docs))
    return {
        "bm25": _fts5(docs, query_tokens),
        "ngrams": _by_vectors(
            "ngrams", ids, query_tokens, *_tfidf(document_tokens, query_tokens, _ngrams)
        ),
        "lsa": _by_vectors(
            "lsa", ids, query_tokens, *_latent(*_tfidf(document_tokens, query_tokens, Counter))
        ),
    }


def _fts5(docs, asked):
    base = sqlite3.connect(":memory:")
    base.execute(
        "CREATE VIRTUAL TABLE docs USING fts5(id UNINDEXED, text, tokenize='porter ascii')"
    )
    base.executemany("INSERT INTO docs VALUES (?, ?)", docs.items())
    rows = []
    for query, tokens in asked.items():
        expression = " OR ".join(f'"{token}"' for token in dict.fromkeys(tokens))
        matches = base.execute(
            "SELECT id, -bm25(docs) FROM docs WHERE docs MATCH ? ORDER BY bm25(docs) LIMIT ?",
            (expression, DEPTH),
        )
        rows += [(query, doc, score) for doc, score in matches]
    return _run("bm25", rows)


def _ngrams(tokens):
    text = f" {' '.join(tokens)} "
    return Counter(text[i : i + 4] for i in range(len(text) - 3))


def _tfidf(words, asked, count):
    """Return unit rows of (1 + log tf) idf for documents and queries, over the documents' terms."""
    counts = [count(tokens) for tokens in words.values()]
    column_of_term = {term: j for j, term in enumerate(sorted(set().union(*counts)))}
    df = np.zeros(len(column_of_term))
    for terms in counts:
        df[[column_of_term[term] for term in terms]] += 1
    idf = np.log(1 + len(counts) / df)
    return _rows(counts, column_of_term, idf), _rows(
        [count(t) for t in asked.values()], column_of_term, idf
    )


def _rows(counts, place, idf):
    known_terms = [{place[t]: n for t, n in terms.items() if t in place} for terms in counts]
    indices = np.concatenate([np.fromiter(row, np.int64, len(row)) for row in known_terms])
    values = np.concatenate([np.fromiter(row.values(), float, len(row)) for row in known_terms])
    starts = np.concatenate([[0], np.cumsum([len(row) for row in known_terms])])
    X = sparse.csr_matrix(
        ((1 + np.log(values)) * idf[indices], indices, starts), shape=(len(counts), len(place))
    )
    norm = np.sqrt(X.multiply(X).sum(axis=1).A1)
    return sparse.diags(1 / np.where(norm > 0, norm, 1)) @ X


def _latent(documents, queries, rank=100):
    _, values, terms = svds(documents, k=rank, v0=np.ones(min(documents.shape)))
    del values

    def unit(X):
        Y = np.asarray(X @ terms.T)
        return Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-12)

    return unit(documents), unit(queries)


def _by_vectors(tag, ids, asked, documents, queries):
    similar = queries @ documents.T
    similar = np.asarray(similar.todense() if sparse.issparse(similar) else similar)
    rows = []
    for query, scores in zip(asked, similar, strict=True):
        best = np.argsort(-scores, kind="stable")[:DEPTH]
        best = best[scores[best] > 0]
        rows += zip([query] * len(best), ids[best].tolist(), scores[best].tolist(), strict=True)
    return _run(tag, rows)


def _run(tag, rows):
    qid, docid, score = zip(*rows, strict=True)
    return Run(np.array(qid), np.array(docid), np.array(score, dtype=float), tag)


def _best(values, W):
    return W[np.argmax(values.mean(axis=1))]


def _within(values, W, errors=1.0):
    """Return the mean of the candidates that are not significantly worse than the best one."""
    short = values[np.argmax(values.mean(axis=1))] - values
    close = short.mean(axis=1) <= errors * short.std(axis=1) / np.sqrt(values.shape[1])
    return W[close].mean(axis=0)


#: Ways from the candidates' values (one row each, larger is better) to weights.
RULES = {
    "the best candidate": _best,
    "half of it, half equal weights": lambda v, W: 0.5 * _best(v, W) + 0.5 / W.shape[1],
    "mean of the best tenth": lambda v, W: W[np.argsort(-v.mean(axis=1))[: len(W) // 10]].mean(0),
    "mean within one error": _within,
    "mean within two errors": lambda v, W: _within(v, W, 2.0),
    "rankine's": fusion.blend,
}


def by_rules(runs, qrels):
    """Return the held-out mean of the fusion by each rule."""
    means = {}
    for name, rule in RULES.items():
        with mock.patch.object(fusion, "blend", rule):
            systems = fuse(runs, qrels, random_state=0, n_resamples=100).systems
        means[name] = next(s.mean for s in systems if s.name == fusion.FUSED)
    return means


def left_out(table):
    """Choose for each collection the rule that is best on the others; return it and its value."""
    results = {}
    for name, values in table.items():
        other_rows = [row for other_name, row in table.items() if other_name != name]
        rule = max(values, key=lambda each: np.mean([row[each] for row in other_rows]))
        results[name] = {"rule": rule, "mean": values[rule]}
    return results


#: LETOR folder -> columns (from 1) that are scores of retrievers, written down before any run.
FRESH = {
    "mq2008": {"bm25 body": 21, "bm25 anchor": 22, "bm25 title": 23, "bm25 url": 24},
    "ohsumed_letor3_querylevelnorm": {"bm25 title": 11, "bm25 abstract": 26, "lm both": 45},
}


def letor_runs(name, columns):
    """Load all queries of a LETOR folder with one feature per retriever."""
    letor_folder = folder().parent / name
    data = concat([load(path, base=1) for path in sorted(letor_folder.glob("S*.txt.xz"))])
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    columns_of_retrievers = X[:, [j - 1 for j in columns.values()]]
    return Dataset.from_arrays(columns_of_retrievers, data.y, data.qid, feature_names=list(columns))


def synthetic(n_queries=1000, n_runs=4, depth=100, seed=0):
    """Runs of random documents whose scores know a little of the grades."""
    rng = np.random.default_rng(seed)
    grades = (rng.random((n_queries, 400)) < 0.05) * rng.integers(1, 4, (n_queries, 400))
    runs = {}
    for j in range(n_runs):
        scores = rng.normal(size=grades.shape) + (0.3 + 0.2 * j) * grades
        best = np.argsort(-scores, axis=1)[:, :depth]
        qid = np.repeat(np.arange(n_queries), depth).astype(str)
        runs[f"run{j}"] = Run(
            qid, best.ravel().astype(str), np.take_along_axis(scores, best, 1).ravel(), f"run{j}"
        )
    q, d = np.nonzero(grades)
    return runs, Qrels(q.astype(str), d.astype(str), grades[q, d].astype(float))


def speed(repetitions):
    """Measure the time to fuse and cross-validate 1,000 queries x 4 runs x 100 documents."""
    runs, qrels = synthetic()
    fuse(runs, qrels, random_state=0)
    seconds = []
    for _ in range(repetitions):
        begun = time.perf_counter(), time.process_time()
        fuse(runs, qrels, random_state=0)
        seconds.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    wall, cpu = zip(*seconds, strict=True)
    return {"wall": spread(wall), "cpu": spread(cpu)}


def run(collections, repetitions):
    """Measure quality on the available collections, and the time."""
    results = {"depth": DEPTH, "collections": {}, "seconds": speed(repetitions)}
    rules = {}
    for name in collections if folder() else ():
        docs, queries, qrels = read_collection(name)
        runs = make_runs(docs, queries)
        fused = fuse(runs, qrels, metric="ndcg@10", random_state=0)
        results["collections"][name] = fused.to_dict()
        rules[name] = by_rules(runs, qrels)
    if results["collections"]:
        results["rules"], results["left_out"] = rules, left_out(rules)
        results["fresh"] = {
            name: fuse(letor_runs(name, columns), random_state=0).to_dict()
            for name, columns in FRESH.items()
        }
        means = {"rule of the other collections": [f["mean"] for f in results["left_out"].values()]}
        for fused in results["collections"].values():
            for system in fused["systems"]:
                means.setdefault(system["name"], []).append(system["mean"])
        results["means"] = {
            name: float(np.mean(values))
            for name, values in means.items()
            if len(values) == len(results["collections"])
        }
    save("fusion", results)


def smoke():
    """Run the smallest size, as the tests do."""
    run((), 1)


def quick():
    """Measure one small collection."""
    run(("medline",), 1)


def full():
    """Measure all four collections."""
    run(COLLECTIONS, 5)
