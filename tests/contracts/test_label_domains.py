"""Every ranker with every gain on labels from every corner: the outcome equals the table.

Rankers learn from any finite labels. Exponential gain knows whole labels 0 to 31; linear and given
gains know numbers from 0; pairwise metrics know all. What is outside is a LabelError, never an
infinite or NaN value.
"""

import numpy as np
import pytest

from rankine.core.errors import LabelError, ParameterError
from rankine.metrics import evaluate
from rankine.rankers.registry import RANKERS, ranker_class

pytestmark = pytest.mark.reliability

LABELS = {
    "graded": [0, 1, 2, 3],
    "negative": [-2, -1, 0, 1],
    "real": [0.0, 0.25, 1.5, 3.75],
    "huge": [0, 31, 1100, 10**9],
}
#: (labels, metric) pairs that must be refused; all others give a finite value.
REFUSED = {
    ("negative", "ndcg@3"), ("real", "ndcg@3"), ("huge", "ndcg@3"),
    ("negative", "ndcg@3:gain=linear"),
}  # fmt: skip
METRICS = ("ndcg@3", "ndcg@3:gain=linear", "ndcg@3:gain=given", "pairwise-error")


@pytest.fixture(scope="module", params=sorted(RANKERS))
def scores(request):
    """Scores of each ranker trained on each kind of label."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    qid = np.repeat(np.arange(10), 4)
    kind = ranker_class(request.param)
    settings = {"n_steps": 300} if "n_steps" in kind().get_params() else {}
    if "objective" in kind().get_params():
        settings["objective"] = "pairwise"  # its default, NDCG, has exponential gains
    found = {}
    for name, levels in LABELS.items():
        y = np.tile(np.array(levels, dtype=float), 10)
        ranker = kind(random_state=0, metric="pairwise-error", scale="none", **settings)
        found[name] = (y, ranker.fit(X, y, qid=qid).predict(X), qid)
    return found


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("labels", LABELS)
def test_outcome(scores, labels, metric):
    y, score, qid = scores[labels]
    assert np.isfinite(score).all()
    columns = {"gain": np.abs(y)}
    if (labels, metric) in REFUSED:
        with pytest.raises(LabelError):
            evaluate(metric, y, score, qid, columns=columns)
    else:
        assert 0 <= evaluate(metric, y, score, qid, columns=columns) <= 1


def test_a_listwise_objective_with_exponential_gain_refuses_huge_labels():
    y, qid = np.tile(LABELS["huge"], 2), np.repeat([0, 1], 4)
    ranker = ranker_class("elastic")(random_state=0)
    with pytest.raises(ParameterError, match="gain=linear"):
        ranker.fit(np.eye(8), y, qid=qid)
