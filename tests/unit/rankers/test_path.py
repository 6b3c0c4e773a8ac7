"""The l1 path, models of a given size, and the command."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

import rankine
from rankine import DominationRanker, LinearModel, domination_path
from rankine.core.errors import ParameterError
from rankine.metrics import evaluate
from rankine.solvers.coordinate_descent import regularisation_path

pytestmark = pytest.mark.usefixtures("raw_units")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 20)) * (rng.random((400, 20)) < 0.5)
    y = (X[:, :3] @ [1.0, 0.7, 0.4] + 0.5 * rng.normal(size=400) > 1).astype(float)
    qid = np.repeat(np.arange(20), 20)
    return X, y, qid


@pytest.fixture(scope="module")
def path(data):
    X, y, qid = data
    return domination_path(
        X[:300],
        y[:300],
        qid[:300],
        eval_set=(X[300:], y[300:]),
        eval_qid=qid[300:],
        n_steps=8,
        scale="none",
    )


def test_path_starts_empty_and_its_loss_falls(path):
    assert path.nonzeros[0] == 0
    assert path.l1[-1] == pytest.approx(0.01 * path.l1[0])
    assert (np.diff(path.loss) <= 1e-3 * path.loss[0]).all()
    assert np.isfinite(path.values).all()
    assert path.best(3) == np.argmax(np.where(path.nonzeros <= 3, path.values, -np.inf))


def test_warm_steps_equal_cold_fits(data, path):
    X, y, qid = data
    cold = DominationRanker(path.l1[4], tol=1e-8).fit(X[:300], y[:300], qid=qid[:300])
    assert path.objective[4] == pytest.approx(cold.solution_.objective, rel=1e-3)
    assert path.relative_gap.max() <= 1e-4


def test_given_strengths_and_a_bound_on_size(data):
    X, y, qid = data
    path = domination_path(X, y, qid, l1s=[20.0, 5.0, 0.1], max_nonzero=10)
    assert path.l1.tolist() == [20.0, 5.0]
    assert not path.measured
    with pytest.raises(ParameterError) as caught:
        domination_path(X, y, qid, l1s=[1.0, 2.0])
    assert caught.value.parameter == "l1s"
    with pytest.raises(ParameterError) as caught:
        domination_path(X, y, qid, n_steps=0)
    assert caught.value.parameter == "n_steps"
    for wrong in ([], [1.0, 0.0], [np.inf], [[1.0]], [-1.0], [np.nan]):
        with pytest.raises(ParameterError) as caught:
            domination_path(X, y, qid, l1s=wrong)
        assert caught.value.parameter == "l1s"
    assert len(domination_path(X, y, qid, l1s=[20.0, 20.0])) == 2
    assert path.best() == 1
    with pytest.raises(ParameterError, match="at most -1 non-zero") as caught:
        path.best(-1)
    assert caught.value.fix == f"The smallest model has {path.nonzeros.min()}"
    assert len(domination_path(X, y, qid, n_steps=3, min_ratio=1.0)) == 3
    nothing = domination_path(X, y, qid, l1s=[0.1], max_nonzero=1)
    assert (len(nothing), nothing.weights.shape) == (0, (0, 20))
    bound = int(path.nonzeros[1])
    assert len(domination_path(X, y, qid, l1s=[20.0, 5.0, 0.1], max_nonzero=bound)) == 2


def test_max_nonzero_bounds_the_model(data):
    X, y, qid = data
    small = DominationRanker(max_nonzero=3).fit(X, y, qid=qid)
    larger = DominationRanker(max_nonzero=8).fit(X, y, qid=qid)
    assert 1 <= np.count_nonzero(small.coef_) <= 3
    assert np.count_nonzero(small.coef_) < np.count_nonzero(larger.coef_) <= 8
    judged = DominationRanker(max_nonzero=8).fit(X, y, qid=qid, eval_set=(X, y), eval_qid=qid)
    assert np.count_nonzero(judged.coef_) <= 8
    tiny = DominationRanker(max_nonzero=3, scale="none").fit(1e-4 * X, y, qid=qid)
    assert tiny.l1_max_ < 1
    assert 1 <= np.count_nonzero(tiny.coef_) <= 3


def test_plot_marks_the_best_model(path):
    ax = rankine.plot.path(path)
    assert ax.get_xlabel() == "non-zero weights"
    assert ax.get_ylabel() == "ndcg@10"
    assert len(ax.get_lines()) == 2


def test_model_of_a_step(path):
    model = path.to_model(3)
    np.testing.assert_array_equal(model.to_dense(), path.coef(3))
    assert model.parameters["ranker"] == "domination"
    assert model.parameters["l1"] == pytest.approx(path.l1[3])


@pytest.mark.cli
def test_command(data, tmp_path):
    from rankine.cli.main import app, find_commands

    find_commands()
    X, y, qid = data
    lines = [
        f"{y[i]:g} qid:{qid[i]} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(X[i]) if v)
        for i in range(len(y))
    ]
    train, valid = tmp_path / "train.txt", tmp_path / "valid.txt"
    train.write_text("\n".join(lines[:300]) + "\n")
    valid.write_text("\n".join(lines[300:]) + "\n")
    arguments = ["path", str(train), "--valid", str(valid), "--n-steps", "5"]
    model, plot = tmp_path / "m.rankine", tmp_path / "p.svg"
    done = CliRunner().invoke(app, [*arguments, "--json", "--out", str(model), "--plot", str(plot)])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(result["steps"]) == 5
    assert LinearModel.load(model).nnz == result["steps"][result["best"]]["nonzeros"]
    assert plot.read_bytes().startswith(b"<?xml")
    table = CliRunner().invoke(app, arguments)
    assert table.stdout.count("*") == 1
    with pytest.raises(ParameterError, match="cannot compute a path"):
        CliRunner().invoke(app, [*arguments, "--ranker", "ranksvm"], catch_exceptions=False)


def test_steps_that_stop_early_give_one_warning():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(60, 6)), (np.arange(60) % 6 == 0).astype(float)
    with pytest.warns(ConvergenceWarning, match="3 of 4 runs, l1=") as caught:
        domination_path(X, y, n_steps=4, max_iter=1, tol=1e-9)
    assert len(caught) == 1
    with pytest.warns(ConvergenceWarning, match="short of tol"):
        DominationRanker(max_nonzero=3, max_iter=1, tol=1e-9).fit(X, y)


def test_a_path_ends_at_its_bound_on_size(data, monkeypatch):
    X, y, qid = data
    walked = []

    def counted(*given):
        for point in regularisation_path(*given):
            walked.append(point.nonzeros)
            yield point

    monkeypatch.setattr("rankine.rankers.domination.regularisation_path", counted)
    path = domination_path(X, y, qid, n_steps=12, max_nonzero=4)
    assert walked[:-1] == path.nonzeros.tolist()
    assert len(walked) < 12
    assert walked[-1] > 4


def test_a_callback_ends_the_search_for_a_small_model(data):
    X, y, qid = data
    seen = []
    DominationRanker(max_nonzero=8).fit(
        X, y, qid=qid, callbacks=[lambda told: seen.append(told.step) or len(seen) == 2]
    )
    assert seen == [1, 2]


@pytest.mark.parametrize("min_ratio", [0.0, -0.1, 1.5, float("nan")])
def test_strengths_that_would_not_fall_are_refused(data, min_ratio):
    with pytest.raises(ParameterError) as caught:
        domination_path(*data, min_ratio=min_ratio)
    assert caught.value.parameter == "min_ratio"


def test_a_callback_ends_a_path_and_is_called_after_every_step(data):
    X, y, qid = data
    seen = []
    path = domination_path(
        X, y, qid, n_steps=5, eval_set=(X, y), eval_qid=qid, metric="map",
        callbacks=[lambda told: seen.append(told) or told.step == 2],
    )  # fmt: skip
    assert [told.step for told in seen] == [1, 2]
    assert len(path) == 2
    for told, record in zip(seen, path.records(), strict=True):
        assert told.total == 5
        names = ("l1", "loss", "map", "nonzeros")
        assert dict(told.values) == {key: record[key] for key in names}
    plain = []
    domination_path(X, y, qid, n_steps=2, callbacks=[lambda told: plain.append(told.values)])
    assert [set(values) for values in plain] == [{"l1", "nonzeros", "loss"}] * 2
    # Early stopping has nothing to watch on a path, and refuses nothing.
    assert len(domination_path(X, y, qid, n_steps=2, early_stopping=1)) == 2


def test_the_smaller_of_equally_good_models_is_best_and_smaller_errors_are_better(path):
    flat = replace(path, values=np.full(8, 0.5))
    assert path.nonzeros[0] == 0 < path.nonzeros[1]
    assert flat.best() == 1  # step 0 has no weights
    errors = replace(path, values=np.linspace(1.0, 0.3, 8), larger_is_better=False)
    assert errors.best() == 7
    unmeasured = replace(path, values=np.full(8, np.nan))
    assert unmeasured.best() == np.argmin(path.loss)
    assert unmeasured.records()[0]["ndcg@10"] is None
    assert path.to_model().provenance["path_step"] == path.best()
    assert path.best(int(path.nonzeros[2])) <= 2


def test_no_weights_win_only_if_the_interval_of_every_other_model_is_below(path):
    falling = replace(path, values=np.linspace(1.0, 0.3, 8), largest_gains=np.full(8, -0.1))
    assert falling.best() == 0
    gains = np.where(np.arange(8) == 5, 0.0, -0.1)
    assert replace(falling, largest_gains=gains).best() == 5
    assert replace(falling, largest_gains=gains).best(int(path.nonzeros[4])) == 0


def test_gains_over_no_weights_have_the_interval_of_paired_values(data):
    X, y, qid = data
    path = domination_path(X, y, qid, n_steps=4, eval_set=(X, y), eval_qid=qid, metric="map")
    for k in range(4):
        values = evaluate("map", y, X @ path.coef(k), qid, per_query=True)
        gains = values - evaluate("map", y, np.zeros(len(y)), qid, per_query=True)
        half_width = 1.96 * gains.std() / np.sqrt(len(gains))
        assert path.largest_gains[k] == pytest.approx(gains.mean() + half_width)


def test_the_empty_model_is_returned_if_no_other_is_small_enough(data):
    _, y, qid = data
    nothing = DominationRanker(max_nonzero=1).fit(np.zeros((400, 2)), y, qid=qid)
    assert (nothing.l1_, nothing.l1_max_, nothing.coef_.any()) == (0.0, 0.0, False)


def test_the_smallest_loss_or_the_best_on_held_out_lists_is_kept(data):
    X, y, qid = data
    seen = []
    told = [lambda step: seen.append((step.values["loss"], step.coef().copy())) and None]
    small = DominationRanker(max_nonzero=8).fit(X, y, qid=qid, callbacks=told)
    np.testing.assert_array_equal(small.coef_, min(seen, key=lambda one: one[0])[1])
    seen.clear()
    half = (X[200:], y[200:])
    judged = DominationRanker(max_nonzero=8).fit(
        X[:200], y[:200], qid=qid[:200], eval_set=half, eval_qid=qid[200:], callbacks=told
    )
    values = [row["value"] for row in judged.evals_]
    np.testing.assert_array_equal(judged.coef_, seen[int(np.argmax(values))][1])
