"""The transformer of PyTerrier, where it is installed."""

import numpy as np
import pandas as pd
import pytest

from rankine import LinearModel, Scorer
from rankine.core.errors import SchemaError
from rankine.core.specs import ListRange

pytest.importorskip("pyterrier")
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTerrier's own


def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "qid": ["q2", "q10", "q2", "q10", "q2"],
            "docno": ["a", "b", "c", "d", "e"],
            "bm25": rng.normal(size=5),
            "pl2": rng.normal(size=5),
        }
    )


@pytest.mark.parametrize("transforms", [[], [ListRange()]])
def test_documents_are_ranked_within_their_query(transforms, tmp_path):
    from rankine.pyterrier import ModelTransformer

    model = LinearModel.from_weights([1.0, -2.0], ["bm25", "pl2"], transforms=transforms)
    model.save(tmp_path / "m.rankine")
    rows = frame()
    features = rows.assign(features=list(rows[["bm25", "pl2"]].to_numpy()))
    for given in (rows, features.drop(columns=["bm25", "pl2"])):
        ranked = ModelTransformer(str(tmp_path / "m.rankine"))(given)
        for query, part in rows.groupby("qid"):
            result = ranked[ranked["qid"] == query].sort_values("rank")
            scores = Scorer(model).score(part[["bm25", "pl2"]].to_numpy())
            order = np.argsort(-scores)
            assert result["docno"].tolist() == part["docno"].to_numpy()[order].tolist()
            np.testing.assert_allclose(result["score"], scores[order], rtol=1e-12)


def test_a_pipeline_of_pyterrier_runs():
    import pyterrier as pt

    from rankine.pyterrier import ModelTransformer

    model = LinearModel.from_weights([1.0, 0.0], ["bm25", "pl2"])
    pipeline = pt.Transformer.from_df(frame().assign(score=0.0)) >> ModelTransformer(model) % 1
    queries = pd.DataFrame({"qid": ["q2", "q10"], "query": ["x", "y"]})
    best = frame().sort_values("bm25").groupby("qid").tail(1)
    assert sorted(pipeline(queries)["docno"]) == sorted(best["docno"])


def test_frames_without_features_are_refused():
    from rankine.pyterrier import ModelTransformer

    model = LinearModel.from_weights([1.0], ["bm25"])
    for columns in (["docno"], ["qid"], ["qid", "docno"]):
        with pytest.raises(SchemaError):
            ModelTransformer(model).transform(frame()[columns])
