"""The path of a fit: what holds for every ranker and every source, as its capabilities say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import rankine
import rankine.distributed as rd
from error_checks import raises_for
from rankine import shop_log
from rankine.core.errors import CheckpointError, FeatureMismatchError, ParameterError
from rankine.rankers.registry import RANKERS, ranker_class

OPTIONS = {
    "spd": {"n_steps": 3000},
    "ranksvm": {"l2": 0.1},
    "least-squares": {},
    "domination": {"l1": 3.0},
    "elastic": {"l1": 0.0},
    "additive": {"smooth": 1.0, "pairs": 1},
}


SOURCES = ("memory", "stream", "partitions")


def make(name, **options):
    return ranker_class(name)(random_state=0, **{**OPTIONS[name], **options})


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same lists as rows, as a stream and as partitions."""
    path = str(tmp_path_factory.mktemp("fitting") / "train.parquet")
    data = shop_log(60, random_state=1, list_length=6)
    data.save(path)
    return {
        "memory": rankine.load(path),
        "stream": rankine.scan(path, block_rows=64),
        "partitions": rd.scan(path, partition_bytes=4000),
    }


@pytest.fixture(scope="module")
def valid():
    return shop_log(30, random_state=2, list_length=6)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", RANKERS)
def test_every_source_is_fitted_or_refused_in_one_sentence(sources, name, kind):
    ranker = make(name)
    if kind not in ranker.capabilities.fit:
        words = f"{type(ranker).__name__} cannot be fitted to"
        with pytest.raises(ParameterError, match=words) as caught:
            ranker.fit(sources[kind])
        assert all(
            ("load" in str(caught.value)) == (s in ranker.capabilities.fit) for s in ("memory",)
        )
        return
    ranker.fit(sources[kind])
    memory = sources["memory"]
    counts = {"rows": memory.n_rows, "queries": memory.n_queries}
    assert {k: ranker.training_[k] for k in counts} == counts
    assert ranker.score(memory) > make(name).fit(memory).score(memory) - 0.1
    assert ranker.to_model().n_columns == memory.n_features


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", [name for name in RANKERS if name != "additive"])
def test_evaluation_early_stopping_callbacks_and_starts(sources, valid, name, kind):
    ranker = make(name, early_stopping=2, metric="ndcg@5")
    if kind not in ranker.capabilities.fit:
        pytest.skip("refused above")
    seen = []
    told = [lambda progress: seen.append(progress.step)]
    ranker.fit(sources[kind], eval_set=valid, callbacks=told)
    assert [row["step"] for row in ranker.evals_] == seen
    assert ranker.score(valid) == pytest.approx(max(row["value"] for row in ranker.evals_))
    model = ranker.to_model()
    again = make(name).fit(sources[kind], coef_init=model, callbacks=[lambda _: True])
    assert again.solution_.stop_reason in ("callback", "converged")
    with pytest.raises(FeatureMismatchError):
        make(name).fit(sources[kind], coef_init=rankine.LinearModel.from_weights(np.ones(3)))
    with raises_for("scale", FeatureMismatchError):
        make(name, scale="query").fit(sources[kind], coef_init=model)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", RANKERS)
def test_checkpoints_are_kept_or_refused(sources, name, kind, tmp_path):
    ranker = make(name)
    if kind not in ranker.capabilities.fit:
        pytest.skip("refused above")
    if kind not in ranker.capabilities.checkpoint:
        with raises_for("checkpoint"):
            ranker.fit(sources[kind], checkpoint=tmp_path)
        return
    with pytest.raises(CheckpointError):
        ranker.fit(sources[kind], checkpoint=tmp_path, resume=True)
    first = ranker.fit(sources[kind], checkpoint=tmp_path, every=17).coef_
    with pytest.raises(CheckpointError):
        ranker.fit(sources[kind], checkpoint=tmp_path)
    again = make(name).fit(sources[kind], checkpoint=tmp_path, every=17, resume=True)
    np.testing.assert_array_equal(again.coef_, first)
    with pytest.raises(CheckpointError):
        ranker.fit(sources[kind], resume=True)


@pytest.mark.parametrize("name", RANKERS)
def test_query_weights_are_taken_or_refused(sources, name):
    ranker = make(name)
    weight = np.linspace(0.5, 1.5, sources["memory"].n_queries)
    for kind in ranker.capabilities.fit:
        if kind in ranker.capabilities.query_weight:
            assert np.isfinite(ranker.fit(sources[kind], query_weight=weight).coef_).all()
        else:
            with raises_for("query_weight"):
                ranker.fit(sources[kind], query_weight=weight)


def test_early_stopping_needs_something_to_watch(sources):
    with pytest.raises(ParameterError) as caught:
        make("spd", early_stopping=2).fit(sources["memory"])
    assert caught.value.parameter == "early_stopping"


def test_the_evaluation_set_must_have_the_columns_of_the_data(sources, valid):
    narrow = replace(valid, X=np.ascontiguousarray(valid.X[:, :3]), feature_names=None)
    with pytest.raises(FeatureMismatchError):
        make("ranksvm").fit(sources["memory"], eval_set=narrow)
    with pytest.raises(ParameterError) as caught:
        make("ranksvm").fit(sources["memory"], eval_set=sources["partitions"])
    assert caught.value.parameter == "eval_set"
    streamed = make("ranksvm").fit(sources["memory"], eval_set=sources["stream"])
    assert len(streamed.evals_) > 0


@pytest.mark.parametrize("name", RANKERS)
def test_a_failed_fit_leaves_the_ranker_as_it_was(name):
    """Refits on other columns fail before, during and after the solver."""
    data = shop_log(60, random_state=3, list_length=6)
    other = data.X[:, :3], data.y

    def fail(_progress):
        raise KeyboardInterrupt

    ranker = make(name).fit(data)
    before = dict(vars(ranker))
    scores = ranker.predict(data)
    failing = [
        (ParameterError, {"eval_names": ["a"]}),
        (ValueError, {"coef_init": np.ones(99)}),
        (ValueError, {"sample_weight": np.full(data.n_rows, np.nan)}),
        (KeyboardInterrupt, {"callbacks": [fail]}),
    ]
    for error, options in failing:
        with pytest.raises(error):
            ranker.fit(*other, qid=data.qid, **options)
        assert vars(ranker).keys() == before.keys()
        assert all(vars(ranker)[key] is value for key, value in before.items())
        np.testing.assert_array_equal(ranker.predict(data), scores)
    ranker.fit(*other, qid=data.qid)
    assert (ranker.n_features_in_, hasattr(ranker, "feature_names_in_")) == (3, False)
