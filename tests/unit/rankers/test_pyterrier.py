"""A ranker as the learned stage of a PyTerrier pipeline, and its call where that is absent."""

import numpy as np
import pytest

from rankine import RankSVM


@pytest.mark.filterwarnings("default")  # its own calls of pandas are not ours to mend
def test_a_ranker_is_a_learned_stage():
    import pandas as pd

    pt = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")
    rng = np.random.default_rng(0)
    qid = np.repeat([str(q) for q in range(20)], 5)
    docno = np.tile([str(d) for d in range(5)], 20)
    features = list(rng.normal(size=(100, 3)))
    label = np.array([int(x[0] > 0.3) for x in features])
    rows = pd.DataFrame({"qid": qid, "docno": docno, "features": features, "score": 0.0, "rank": 0})
    qrels = pd.DataFrame({"qid": qid, "docno": docno, "label": label})
    topics = pd.DataFrame({"qid": np.unique(qid), "query": "x"})
    ranker = RankSVM()
    stage = pt.Transformer.from_df(rows) >> pt.ltr.apply_learned_model(ranker, form="ltr")
    stage.fit(topics, qrels, topics, qrels)
    found = stage(topics)
    np.testing.assert_allclose(found["score"], ranker.predict(np.stack(found["features"])))
    assert np.argmax(ranker.coef_) == 0


def test_the_call_of_the_stage():
    """``apply_learned_model(form="ltr")`` fits with a list of one evaluation set."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y, counts = (X[:, 0] > 0.3).astype(int), np.full(20, 5)
    ranker = RankSVM().fit(X, y, group=counts, eval_set=[(X, y)], eval_group=[counts])
    assert np.argmax(ranker.coef_) == 0
