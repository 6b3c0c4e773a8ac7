"""The trace inside a model file: short, without times, the same however a stream is cut."""

from __future__ import annotations

import numpy as np
import pytest

import rankine
from rankine import Dataset, ElasticRanker
from rankine.rankers.provenance import MAX_RECORDS, pack_trace
from unit.reporting.report_cases import random_data, shop


def test_a_long_trace_is_thinned_and_rounded():
    rows = [{"step": k, "objective": 1 / (k + 3), "seconds": 1.5} for k in range(5000)]
    found = pack_trace(rows)
    assert list(found) == ["step", "objective"]
    assert len(found["step"]) == MAX_RECORDS
    assert (found["step"][0], found["step"][-1]) == (0, 4999)
    assert found["objective"][0] == 0.333333
    assert pack_trace([{"a": np.nan}, {"b": 2.0}]) == {"a": [None, None], "b": [None, 2]}
    assert pack_trace([]) == {}


def test_models_carry_their_trace_and_the_validation_metric():
    train, test = shop()
    ranker = rankine.LeastSquaresRanker(scale="standard").fit(train, eval_set=test)
    story = ranker.to_model().provenance
    assert story["trace"]["residual"][-1] == float(f"{ranker.solution_.trace[-1]['residual']:.6g}")
    assert story["validation"]["value"] == [float(f"{e['value']:.6g}") for e in ranker.evals_]
    again = rankine.LinearModel.from_bytes(ranker.to_model().to_bytes())
    assert again.provenance["trace"] == story["trace"]


class Blocks:
    """A stream of given blocks."""

    def __init__(self, data, rows):
        self.data, self.rows, self.n_features = data, rows, data.n_features

    def __iter__(self):
        return self.data.blocks(self.rows)


@pytest.mark.filterwarnings("ignore:the loss of the last lists")  # the labels are random
def test_a_stream_tells_the_same_story_however_it_is_cut():
    data = random_data(130, 5, 4)
    models = [
        ElasticRanker(random_state=0).fit(Blocks(data, rows)).to_model()
        for rows in (40, 111, 10_000)
    ]
    assert models[0].digest == models[1].digest == models[2].digest
    trace = models[0].provenance["trace"]
    assert trace["lists"][:6] == [10, 15, 20, 30, 50, 70]
    assert trace["lists"][-1] == 130
    ranker = ElasticRanker(random_state=0).fit(Blocks(data, 50))
    assert trace["progressive_ndcg@10"][-1] == float(f"{ranker.progressive_:.6g}")


def test_labels_that_do_not_suit_the_metric_leave_no_story():
    data = random_data(12, 5, 3)
    odd = Dataset.from_arrays(data.X, data.y - 1.5, data.qid)
    ranker = ElasticRanker(random_state=0, objective="pairwise").fit(Blocks(odd, 30))
    assert "trace" not in ranker.to_model().provenance
