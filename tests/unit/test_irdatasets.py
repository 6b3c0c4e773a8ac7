"""Judgements of ir_datasets."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from rankine.core.errors import ParameterError, SchemaError
from rankine.irdatasets import read_judged, read_qrels


class Judgement(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int


JUDGEMENTS = [Judgement("1", "a", 2), Judgement("1", "b", 0), Judgement("2", "a", 1)]


def collection(judgements=JUDGEMENTS):
    return SimpleNamespace(has_qrels=lambda: bool(judgements), qrels_iter=lambda: iter(judgements))


def test_judgements_are_read():
    qrels = read_qrels(collection())
    assert qrels.qid.tolist() == ["1", "1", "2"]
    assert qrels.docid.tolist() == ["a", "b", "a"]
    assert qrels.label.tolist() == [2.0, 0.0, 1.0]
    with pytest.raises(ParameterError):
        read_qrels(collection([]))


def test_documents_without_judgement_have_label_0():
    rows = pd.DataFrame(
        {
            "qid": ["1", "1", "2"],
            "docno": ["c", "a", "a"],
            "features": [np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0])],
        }
    )
    data = read_judged(rows, collection())
    assert data.y.tolist() == [0.0, 2.0, 1.0]
    assert np.asarray(data.X).tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    with pytest.raises(SchemaError):
        read_judged(rows[["qid", "docno"]], collection())


def test_a_dataset_of_the_library_is_read(tmp_path):
    ir_datasets = pytest.importorskip("ir_datasets")
    path = tmp_path / "qrels"
    path.write_text("1 0 a 2\n2 0 b 0\n")
    qrels = ir_datasets.formats.TrecQrels(SimpleNamespace(stream=lambda: path.open("rb")), {})
    found = read_qrels(SimpleNamespace(has_qrels=lambda: True, qrels_iter=qrels.qrels_iter))
    assert found.label.tolist() == [2.0, 0.0]
