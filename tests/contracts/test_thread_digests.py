"""The number of threads may change no bit of a model file."""

import numpy as np
import pytest

from rankine.rankers.registry import RANKERS, ranker_class

SETTINGS = {"spd": {"n_steps": 200}}


@pytest.mark.estimators
@pytest.mark.parametrize("name", sorted(RANKERS))
def test_models_of_any_number_of_threads_have_one_digest(name, monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 6))
    y = np.round(X[:, 0] + rng.normal(size=60)).clip(0, 2)
    qid = np.arange(60) % 5
    make = ranker_class(name)
    takes_threads = "n_threads" in make._get_param_names()
    digests = set()
    for threads in (None, 1, 2):
        settings = {"random_state": 0, **SETTINGS.get(name, {})}
        settings |= {"n_threads": threads} if takes_threads else {}
        monkeypatch.setenv("RANKINE_NUM_THREADS", str(threads or 3))
        model = make(**settings).fit(X, y, qid=qid).to_model()
        assert "n_threads" not in model.parameters
        digests.add(model.digest)
    assert len(digests) == 1
