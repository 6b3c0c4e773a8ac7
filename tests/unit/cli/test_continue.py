from __future__ import annotations

import numpy as np

from error_checks import raises_for
from rankine import LinearModel, SPDRanker
from rankine.cli._continue import open_like_training, ranker_of_model
from rankine.cli._reading import ModelReadingOptions

ROWS = "2 qid:1 1:0.5\n1 qid:1 2:0.25\n0 qid:1 1:0.1\n"


def model_of(ranker):
    X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 0.0]])
    return ranker.fit(X, [0, 1, 2], qid=[1, 1, 1]).to_model()


def test_a_ranker_continues_with_the_settings_of_its_model():
    ranker = ranker_of_model(model_of(SPDRanker("romma", sampling="uniform", n_steps=50)))
    assert isinstance(ranker, SPDRanker)
    assert (ranker.solver, ranker.sampling, ranker.n_steps) == ("romma", "uniform", 50)
    assert not ranker.warm_start


def test_a_model_of_unknown_origin_is_refused():
    with raises_for("model"):
        ranker_of_model(LinearModel.from_weights([1.0, 2.0]))


def test_rows_have_the_columns_of_the_model(tmp_path):
    path = tmp_path / "day.txt"
    path.write_text(ROWS)
    data = open_like_training(
        [str(path)], model_of(SPDRanker(n_steps=50)), ModelReadingOptions(), ()
    )
    assert data.X.shape == (3, 2)
