"""DCG, NDCG and rank-biased precision against other tools."""

import lzma
import os
from pathlib import Path

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


def test_scikit_learn_averages_ties_of_linear_gains(lists):
    from sklearn.metrics import ndcg_score

    y, s, qid = lists
    expected = [ndcg_score([y[qid == q]], [s[qid == q]], k=5) for q in range(40)]
    found = evaluate("ndcg@5:gain=linear:ties=expected", y, s, qid, per_query=True)
    np.testing.assert_allclose(found, expected, atol=1e-12)


BEST_FEATURES = [
    ("ohsumed_letor3_querylevelnorm", 11, "letor3",
     {"map": 0.4409, "ndcg@1": 0.5189, "ndcg@3": 0.4765, "ndcg@5": 0.4644, "ndcg@10": 0.4453}),
    ("mq2008", 39, "letor4",
     {"map": 0.4712, "ndcg@1": 0.3525, "ndcg@3": 0.4283, "ndcg@5": 0.4684, "ndcg@10": 0.2234}),
]  # fmt: skip


def read(path, feature):
    labels, qids, values = [], [], []
    with lzma.open(path, "rt") as lines:
        for line in lines:
            fields = line.split("#")[0].split()
            labels.append(float(fields[0]))
            qids.append(int(fields[1][4:]))
            values.append(float(fields[1 + feature].split(":")[1]))
    return labels, qids, values


@pytest.mark.data
@pytest.mark.parametrize(("folder", "feature", "mode", "published"), BEST_FEATURES)
def test_published_means_of_the_best_single_feature(folder, feature, mode, published):
    if "RANKINE_DATA" not in os.environ:
        pytest.skip("RANKINE_DATA names no folder of real data")
    root = Path(os.environ["RANKINE_DATA"]) / folder
    parts = [read(root / f"S{k}.txt.xz", feature) for k in range(1, 6)]
    y, q, s = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    found = {name: round(evaluate(f"{mode}:{name}", y, s, q), 4) for name in published}
    assert found == published
