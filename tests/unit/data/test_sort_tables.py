import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import rankine
from rankine.core.errors import FileKindError
from rankine.data import Dataset
from rankine.data import sort as sort_tables
from rankine.data.sort import sort_file


def make(qid, kind="dense"):
    n = len(qid)
    X = np.arange(3.0 * n).reshape(n, 3) + 1
    return Dataset.from_arrays(
        sparse.csr_matrix(X) if kind == "sparse" else X,
        np.arange(n) % 4,
        qid,
        docid=[f"d{k}" for k in range(n)],
        weight=np.arange(n) + 1.0,
        columns={"shown": np.arange(n)},
    )


def check(found, data):
    order = np.argsort(data.qid, kind="stable")
    expected = data.take(order)
    assert found.fingerprint == expected.fingerprint
    assert found.docid.tolist() == expected.docid.tolist()
    assert found.weight.tolist() == expected.weight.tolist()


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npz"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_sorted_files_can_be_streamed(tmp_path, suffix, kind):
    data = make(np.random.default_rng(0).integers(0, 40, 500), kind)
    source, target = tmp_path / f"in.{suffix}", tmp_path / "out.parquet"
    data.save(source)
    report = sort_file(source, target)
    assert (report.rows, report.queries, report.runs) == (500, 40, 1)
    check(rankine.load(target), data)
    assert sum(block.n_queries for block in rankine.scan(target, block_rows=20)) == 40
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([source.name, target.name])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=60),
    st.integers(1, 9), st.integers(1, 9), st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_runs_and_blocks_merge_to_the_same(tmp_path_factory, qid, run, block, text, csr):
    folder = tmp_path_factory.mktemp("sort")
    data = make([f"q{q:02}" for q in qid] if text else qid, "sparse" if csr else "dense")
    data.save(folder / "in.parquet", row_group_rows=run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sort_tables, "_MERGE_ROWS", block)
        patch.setattr(sort_tables, "_SHARE", 2**60)  # every block is a run
        report = sort_file(folder / "in.parquet", folder / "out.parquet", block_rows=run)
    assert report.rows == len(qid)
    assert report.queries == len(set(qid))
    check(rankine.load(folder / "out.parquet"), data)


def test_text_and_tables_are_not_mixed(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n")
    make([1, 2]).save(tmp_path / "b.parquet")
    with pytest.raises(FileKindError, match="together"):
        sort_file([tmp_path / "a.txt", tmp_path / "b.parquet"], tmp_path / "out.txt")
