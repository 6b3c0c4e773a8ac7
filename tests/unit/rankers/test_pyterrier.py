"""A ranker as the learned stage of a PyTerrier pipeline, where PyTerrier is installed."""

import numpy as np
import pytest

from rankine import RankSVM

pt = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")


def test_a_ranker_is_a_learned_stage():
    import pandas as pd

    rng = np.random.default_rng(0)
    qid = np.repeat([str(q) for q in range(20)], 5)
    docno = np.tile([str(d) for d in range(5)], 20)
    features = list(rng.normal(size=(100, 3)))
    label = np.array([int(x[0] > 0.3) for x in features])
    rows = pd.DataFrame({"qid": qid, "docno": docno, "features": features, "score": 0.0, "rank": 0})
    qrels = pd.DataFrame({"qid": qid, "docno": docno, "label": label})
    topics = pd.DataFrame({"qid": np.unique(qid), "query": "x"})
    stage = pt.Transformer.from_df(rows) >> pt.ltr.apply_learned_model(RankSVM(), form="ltr")
    stage.fit(topics, qrels, topics, qrels)
    assert stage(topics)["score"].std() > 0
