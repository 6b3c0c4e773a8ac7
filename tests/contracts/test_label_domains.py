"""Every ranker trains on any finite labels; metrics reject labels outside their domain.

Exponential gains are defined for whole labels from 0 to 31, linear and given gains for numbers from
0, and pairwise metrics for all labels. Other labels raise LabelError; no value is infinite or NaN.
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
#: (labels, metric) pairs that must raise LabelError; all others give a finite value.
REJECTED = {
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
    scores_of = {}
    for name, levels in LABELS.items():
        y = np.tile(np.array(levels, dtype=float), 10)
        ranker = kind(random_state=0, metric="pairwise-error", scale="none", **settings)
        scores_of[name] = (y, ranker.fit(X, y, qid=qid).predict(X), qid)
    return scores_of


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("labels", LABELS)
def test_a_metric_accepts_the_labels_of_its_domain_only(scores, labels, metric):
    y, score, qid = scores[labels]
    assert np.isfinite(score).all()
    columns = {"gain": np.abs(y)}
    if (labels, metric) in REJECTED:
        with pytest.raises(LabelError):
            evaluate(metric, y, score, qid, columns=columns)
    else:
        assert 0 <= evaluate(metric, y, score, qid, columns=columns) <= 1


def test_a_listwise_objective_with_exponential_gain_rejects_huge_labels():
    y, qid = np.tile(LABELS["huge"], 2), np.repeat([0, 1], 4)
    ranker = ranker_class("elastic")(random_state=0)
    with pytest.raises(ParameterError) as caught:
        ranker.fit(np.eye(8), y, qid=qid)
    assert caught.value.parameter == "objective"
