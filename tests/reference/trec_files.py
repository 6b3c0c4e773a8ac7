"""Write TREC files for tests, as other tools write them."""

from __future__ import annotations

import numpy as np

from rankine.data.compression import open_target
from rankine.data.query_index import QueryIndex
from rankine.kernels.sorting import rank_order_by_key


def write_run(path, qid, docid, score, **options):
    """Write a run in the format of ``rankine predict --trec``."""
    with open_target(path) as out:
        out.writelines(line.encode() for line in run_lines(qid, docid, score, **options))


def write_qrels(path, qid, docid, label):
    """Write judgements."""
    with open_target(path) as out:
        for query, doc, value in zip(qid, docid, label, strict=True):
            out.write(f"{query} 0 {doc} {value:g}\n".encode())


def run_lines(qid, docid, score, *, tag="rankine", depth=None):
    """Yield the lines of a run, queries in order of first appearance."""
    scores = np.asarray(score, dtype=np.float64)
    docs = np.asarray(docid).astype(str)
    queries = QueryIndex.from_qid(qid, len(scores))
    names = np.asarray(queries.ids).astype(str)
    _, ascending = np.unique(docs, return_inverse=True)
    for q in range(queries.n_queries):
        rows = queries.rows_of(q)
        order = rank_order_by_key(scores[rows], -ascending[rows].astype(np.float64))[:depth]
        for rank, row in enumerate(rows[order].tolist(), 1):
            yield f"{names[q]} Q0 {docs[row]} {rank} {float(scores[row])!r} {tag}\n"
