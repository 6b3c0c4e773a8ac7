"""Public collections, read from small files of the form in which they are distributed."""

from __future__ import annotations

import gzip

import joblib
import numpy as np
import pytest
from benchmarks.common.real_data import (
    letor_collections,
    rcv1_is_there,
    read_expedia,
    read_rcv1,
    read_wands,
)
from benchmarks.common.workloads import RCV1_FEATURES, large_text
from scipy import sparse

VECTORS = {
    "train": "2286  864:0.0497 1523:0.0446 47236:0.1\n2287  9:0.5\n",
    "test_pt0": "26151  93:0.2 864:1\n",
    "test_pt1": "26152  1:0.25\n",
    "test_pt2": "26153  2:0.5\n",
    "test_pt3": "810935  7:1\n",
}
QRELS = "E11 2286 1\nECAT 2286 1\nE311 26151 1\nE11 810935 1\nM11 1 1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKINE_DATA", str(tmp_path))
    (tmp_path / "rcv1").mkdir()
    return tmp_path / "rcv1"


def write_lyrl(folder):
    for name, text in VECTORS.items():
        with gzip.open(folder / f"lyrl2004_vectors_{name}.dat.gz", "wt") as file:
            file.write(text)
    (folder / "rcv1-v2.topics.qrels").write_text(QRELS)


def write_cache(folder):
    """As ``sklearn.datasets.fetch_rcv1`` keeps it."""
    cache = folder / "RCV1"
    cache.mkdir()
    words, ones = np.arange(30_000) % RCV1_FEATURES, np.ones(30_000)
    X = sparse.csr_matrix((ones, words, np.arange(30_001)), shape=(30_000, RCV1_FEATURES))
    Y = sparse.csr_matrix((np.arange(30_000) % 3 == 0)[:, None] * np.ones((1, 2)), dtype=np.uint8)
    for name, value in {
        "samples": X,
        "sample_id": np.arange(30_000),
        "sample_topics": Y,
        "topics_names": np.array(["C11", "E311"], dtype=object),
    }.items():
        joblib.dump(value, cache / f"{name}_py3.pkl")
    return X


def test_the_files_of_lyrl2004(folder):
    write_lyrl(folder)
    assert rcv1_is_there()
    X, Y, names, train = read_rcv1()
    assert X.shape == (6, RCV1_FEATURES)
    assert X.dtype == np.float32
    assert train == 2
    assert names == ["E11", "E311", "ECAT"]
    assert X[0, 863] == np.float32(0.0497)
    assert X[0, RCV1_FEATURES - 1] == np.float32(0.1)
    assert X[3, 0] == 0.25
    assert Y.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]]


def test_a_file_that_is_missing_is_named(folder):
    write_lyrl(folder)
    (folder / "lyrl2004_vectors_test_pt2.dat.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"no lyrl2004_vectors_test_pt2\.dat"):
        read_rcv1()


def test_what_scikit_learn_keeps(folder):
    X = write_cache(folder)
    found = read_rcv1()
    assert (X.astype(np.float32) != found.X).nnz == 0
    assert found.names == ["C11", "E311"]
    assert found.train == 23_149
    assert found.Y[:4, 1].tolist() == [1, 0, 0, 1]


def test_large_text_is_rcv1_where_it_is_there(folder):
    """As in the papers the test part is trained on; utilities are products with a document."""
    write_lyrl(folder)
    text = large_text(5)
    X = read_rcv1().X
    assert text.name == "RCV1"
    assert (X[[2, 3, 4, 5, 0]] != text.X).nnz == 0
    assert text.binary.tolist() == [1, -1, -1, -1, -1]
    assert large_text(5, topic="E11").binary.tolist() == [-1, -1, -1, 1, 1]
    np.testing.assert_allclose(text.utility, (X[[2, 3, 4, 5, 0]] @ X[1].T).toarray().ravel())


def test_large_text_is_generated_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKINE_DATA", str(tmp_path))
    monkeypatch.setattr("benchmarks.common.workloads.STORE", tmp_path)
    monkeypatch.setattr("benchmarks.common.workloads.SMALL", 300)
    text = large_text(200)
    assert text.name == "generated"
    assert text.X.shape == (200, RCV1_FEATURES)


def rows(*queries):
    """Four rows of each query."""
    lines = [f"{k % 3} qid:{q} 1:{k}.5 2:0 3:1\n" for q in queries for k in range(4)]
    return "".join(lines)


def test_public_folders_are_found_by_their_names(monkeypatch, tmp_path):
    """Folders of LETOR 3.0, MSLR, Yahoo and Istella, one for each collection."""
    for name in ("OHSUMED_min", "OHSUMED_norm", "hp2003", "MSLR-WEB10K"):
        files = ("trainingset", "validationset", "testset") if name == "hp2003" else None
        for k, file in enumerate(files or ("train", "vali", "test")):
            (tmp_path / name / "Fold1").mkdir(parents=True, exist_ok=True)
            (tmp_path / name / "Fold1" / f"{file}.txt").write_text(rows(k))
    for name, files in {
        "yahoo": ["set1.train", "set1.valid", "set1.test"],
        "istella": ["train", "test"],
    }.items():
        (tmp_path / name).mkdir()
        for k, file in enumerate(files):
            text = rows(*range(10 * k, 10 * k + 5))
            (tmp_path / name / f"{file}.txt").write_text(text)
    monkeypatch.setenv("RANKINE_DATA", str(tmp_path))
    folders, absent = letor_collections()
    assert [f.name for f in folders] == [
        "MSLR-WEB10K",
        "OHSUMED_norm",
        "hp2003",
        "istella",
        "yahoo",
    ]
    assert "hp2003" not in absent
    assert "td2004" in absent
    for folder in folders:
        (fold,) = folder.folds()
        queries = [set(part.qid.tolist()) for part in fold[1:]]
        assert not set.union(*queries) - set(range(30))
        assert sum(map(len, queries)) == len(set.union(*queries))
        assert all(queries)
        assert len({part.n_features for part in fold[1:]}) == 1
    held = folders[3].fold(0)
    assert held.train.queries.ids.tolist() == [0, 1, 2, 3]
    assert held.vali.queries.ids.tolist() == [4]


def test_expedia_has_searches_without_what_is_known_later(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKINE_DATA", str(tmp_path))
    (tmp_path / "expedia").mkdir()
    header = "srch_id,date_time,price_usd,prop_starrating,position,click_bool,booking_bool"
    rows = ["1,2013-01-01,90.5,3,1,1,0", "1,2013-01-01,70,,2,1,1", "2,2013-01-02,50,2,1,0,0"]
    text = "\n".join([f"{header},gross_bookings_usd", *(f"{row}," for row in rows)])
    (tmp_path / "expedia" / "train.csv").write_text(text)
    X, y, qid = read_expedia()
    assert X.tolist() == [[90.5, 3.0], [70.0, 0.0]]
    assert y.tolist() == [1.0, 5.0]
    assert qid.tolist() == [1, 1]  # the last search may be cut


def test_wands_has_the_share_of_the_query_in_every_text(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKINE_DATA", str(tmp_path))
    (tmp_path / "wands").mkdir()
    files = {
        "query": ["query_id\tquery\tquery_class", "7\tblue sofa\tSofas"],
        "product": [
            "product_id\tproduct_name\tproduct_class\tcategory hierarchy\tproduct_description\t"
            + "product_features\trating_count\taverage_rating\treview_count",
            "1\tRed Sofa\tSofas\tFurniture / Sofa\ta blue sofa\t\t3\t4.5\t2",
            "2\tLamp\tLamps\tLight\t\t\t\t\t",
        ],
        "label": ["id\tquery_id\tproduct_id\tlabel", "0\t7\t2\tIrrelevant", "1\t7\t1\tExact"],
    }
    for name, lines in files.items():
        (tmp_path / "wands" / f"{name}.csv").write_text("\n".join(lines) + "\n")
    X, y, qid = read_wands()
    assert X.tolist() == [[0.5, 0, 0.5, 1, 2, 4.5, 2], [0, 0, 0, 0, 1, 0, 0]]
    assert y.tolist() == [2.0, 0.0]
    assert qid.tolist() == [7, 7]
