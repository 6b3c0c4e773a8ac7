"""TREC files for tests: what others write."""

from __future__ import annotations

from rankine.data.compression import open_target
from rankine.evaluation.trec import run_lines


def write_run(path, qid, docid, score, **options):
    """A run as ``rankine predict`` prints it."""
    with open_target(path) as out:
        out.writelines(line.encode() for line in run_lines(qid, docid, score, **options))


def write_qrels(path, qid, docid, label):
    """Judgements."""
    with open_target(path) as out:
        for query, doc, value in zip(qid, docid, label, strict=True):
            out.write(f"{query} 0 {doc} {value:g}\n".encode())
