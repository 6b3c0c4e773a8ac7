"""AUC and Kendall's tau against other tools."""

import numpy as np
import pytest

from rankine.metrics import evaluate


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(11)
    sizes = rng.integers(2, 30, 40)
    qid = np.repeat(np.arange(40), sizes)
    y = rng.integers(0, 3, len(qid)) * (rng.random(len(qid)) < 0.6)
    y[qid == 3] = 0
    return y.astype(float), np.round(rng.normal(size=len(qid)), 1), qid


def test_scikit_learn_roc_area(lists):
    from sklearn.metrics import roc_auc_score

    y, s, qid = lists
    found = evaluate("auc", y, s, qid, per_query=True)
    for q in range(40):
        binary = y[qid == q] >= 1
        if 0 < binary.sum() < len(binary):
            assert found[q] == pytest.approx(roc_auc_score(binary, s[qid == q]), abs=1e-12)
        else:
            assert np.isnan(found[q])


def test_scipy_kendall(lists):
    from scipy.stats import kendalltau

    y, s, qid = lists
    found = evaluate("kendall", y, s, qid, per_query=True)
    for q in range(40):
        if len(set(y[qid == q])) > 1 and len(set(s[qid == q])) > 1:
            expected = kendalltau(y[qid == q], s[qid == q]).statistic
            assert found[q] == pytest.approx(expected, abs=1e-12)


def test_kendall_of_equal_scores_is_zero():
    assert evaluate("kendall", [0, 1, 2], [1, 1, 1]) == 0.0
