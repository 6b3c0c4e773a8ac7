"""Known figures of LETOR collections (mean over all queries), digit for digit."""

import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from rankine.metrics import evaluate

pytestmark = pytest.mark.data

ROWS = [
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


@pytest.mark.parametrize(("folder", "feature", "mode", "published"), ROWS)
def test_best_single_feature(folder, feature, mode, published):
    if "RANKINE_DATA" not in os.environ:
        pytest.skip("RANKINE_DATA names no folder of real data")
    root = Path(os.environ["RANKINE_DATA"]) / folder
    parts = [read(root / f"S{k}.txt.xz", feature) for k in range(1, 6)]
    y, q, s = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    found = {name: round(evaluate(f"{mode}:{name}", y, s, q), 4) for name in published}
    assert found == published
