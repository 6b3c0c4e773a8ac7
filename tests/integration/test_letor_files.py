"""Published LETOR files, read as they come and compared with scikit-learn's reader."""

from __future__ import annotations

import io
import lzma

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_svmlight_file

import rankine

pytestmark = pytest.mark.data

SETS = {
    "ohsumed_letor3_querylevelnorm": (16_140, 45, 106),
    "ohsumed_letor3_min": (16_140, 45, 106),
    "mq2008": (15_211, 46, 784),
}


@pytest.mark.parametrize("name", SETS)
def test_shapes_queries_and_docids(real_data, name):
    data = rankine.load(str(real_data / name / "S?.txt.xz"))
    assert (data.n_rows, data.n_features, data.n_queries) == SETS[name]
    assert set(data.y.tolist()) == {0.0, 1.0, 2.0}
    assert all(data.docid.tolist())


@pytest.mark.parametrize("name", [*SETS, "lightgbm_lambdarank"])
def test_equal_to_scikit_learn(real_data, name):
    file = "rank.train.xz" if name == "lightgbm_lambdarank" else "S1.txt.xz"
    text = lzma.decompress((real_data / name / file).read_bytes())
    has_qid = b"qid:" in text[:100]
    X, y, *qid = load_svmlight_file(io.BytesIO(text), query_id=has_qid, zero_based=False)
    data = rankine.load(io.BytesIO(text), **({} if has_qid else {"single_query": True}))
    difference = sparse.csr_matrix(data.X) - X
    assert abs(difference).sum() == 0
    assert data.y.tobytes() == np.asarray(y, dtype=np.float64).tobytes()
    if has_qid:
        assert data.qid.tolist() == qid[0].tolist()


def test_null_values(real_data):
    path = str(real_data / "ohsumed_letor3_null" / "S1.txt.xz")
    data = rankine.load(path)
    assert data.read_counts["missing_values"] == np.isnan(data.X).sum() > 0


def test_group_sizes_beside_the_rows(real_data, tmp_path):
    folder = real_data / "lightgbm_lambdarank"
    sizes = lzma.decompress((folder / "rank.train.query.xz").read_bytes())
    (tmp_path / "rank.train.query").write_bytes(sizes)
    data = rankine.load(folder / "rank.train.xz", group=tmp_path / "rank.train.query")
    assert data.n_rows == 3005
    assert data.queries.sizes.tolist() == [int(size) for size in sizes.split()]
    blocks = list(
        rankine.scan(folder / "rank.train.xz", group=tmp_path / "rank.train.query", block_rows=100)
    )
    assert sum(block.n_queries for block in blocks) == data.n_queries
