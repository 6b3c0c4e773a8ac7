"""Precision, recall, reciprocal rank and average precision against trec_eval."""

import numpy as np
import pytest

from rankine.metrics import evaluate


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(11)
    sizes = rng.integers(2, 30, 40)
    qid = np.repeat(np.arange(40), sizes)
    y = rng.integers(0, 3, len(qid)) * (rng.random(len(qid)) < 0.6)
    y[qid == 3] = 0
    return y.astype(float), np.round(rng.normal(size=len(qid)), 1), qid


def test_trec_eval_by_ir_measures(lists):
    import ir_measures
    from ir_measures import AP, RR, P, R, nDCG

    y, s, qid = lists
    docs = np.array([f"d{i:03d}" for i in range(len(y))])
    qrels = [ir_measures.Qrel(str(q), d, int(l)) for q, d, l in zip(qid, docs, y, strict=True)]
    run = [ir_measures.ScoredDoc(str(q), d, float(v)) for q, d, v in zip(qid, docs, s, strict=True)]
    named = {"ndcg@5:gain=linear": nDCG @ 5, "map": AP, "map@5": AP @ 5, "p@5": P @ 5,
             "recall@5": R @ 5, "mrr": RR}  # fmt: skip
    expected = {}
    for value in ir_measures.iter_calc(list(named.values()), qrels, run):
        expected[str(value.measure), value.query_id] = value.value
    for text, measure in named.items():
        found = evaluate(f"{text}:ties=docid", y, s, qid, per_query=True, columns={"docid": docs})
        np.testing.assert_allclose(
            found, [expected[str(measure), str(q)] for q in range(40)], atol=1e-9
        )
