"""Quality against size for several optimisers in one reading."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from rankine import Dataset, ElasticRanker
from rankine.core.errors import NoPairsError, ParameterError
from rankine.scoring.latency import parse_latency, scoring_latency

pytestmark = pytest.mark.usefixtures("raw_units")


def lists(seed, count=150, d=20):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(count), 6)
    X = rng.normal(size=(len(qid), d))
    utility = X @ (np.arange(d) < 4) * 2.0 + rng.gumbel(size=len(qid))
    y = (utility.reshape(-1, 6) == utility.reshape(-1, 6).max(1, keepdims=True)).ravel()
    return Dataset.from_arrays(X, y.astype(float), qid)


class OneReading:
    """A stream that counts how often it is read."""

    def __init__(self, data):
        self.data, self.n_features, self.feature_names, self.readings = data, 20, None, 0

    def __iter__(self):
        self.readings += 1
        return self.data.blocks(max_rows=200)


@pytest.fixture
def stream():
    return OneReading(lists(0))


@pytest.fixture
def path(stream, raw_units):
    ranker = ElasticRanker(random_state=0, metric="recall@1", prune_every=10, scale="none")
    return ranker.path(stream, eval_set=lists(1), solvers=("rda", "psgd"), n_steps=4)


def test_all_members_of_a_path_are_trained_in_one_reading(path, stream):
    assert stream.readings == 1
    assert path.solvers == ("rda",) * 4 + ("psgd",) * 4
    for curve in path.curves().values():
        assert (np.diff(curve.nonzeros) >= 0).all()
        assert curve.nonzeros[0] <= 4
        assert curve.nonzeros[-1] >= 15


def test_a_member_equals_a_training_alone(path):
    alone = ElasticRanker(random_state=0, metric="recall@1", scale="none")
    alone.set_params(l1=float(path.l1[2])).fit(OneReading(lists(0)))
    np.testing.assert_array_equal(path.coef(2), alone.coef_)
    held = lists(1)
    assert path.values[2] == pytest.approx(alone.score(held))


def test_best_obeys_its_bounds(path):
    from dataclasses import replace

    best = path.best()
    assert path.values[best] == path.values.max()
    slow = np.where(np.arange(8) == best, 1.0, 0.001)
    bounded = replace(path, latency=slow, max_latency=0.009)
    other = bounded.best()
    assert other != best
    assert path.values[other] == np.delete(path.values, best).max()
    with pytest.raises(ParameterError, match="fastest takes"):
        replace(path, latency=slow, max_latency=1e-9).best()


def test_records_hold_json_types(path):
    record = path.records()[-1]
    assert record["solver"] == "psgd"
    assert record["theta"] == record["l1"]
    assert 0 < record["latency_ms"] < 1
    assert path.to_model().nnz == path.nonzeros[path.best()]


def test_a_callback_ends_the_reading_and_sizes_are_bounded(path):
    seen = []
    ranker = ElasticRanker(random_state=0, metric="recall@1", prune_every=10, scale="none")
    told = {"solvers": ("rda",), "n_steps": 2, "min_ratio": 0.1}
    short = ranker.path(
        OneReading(lists(0)), **told, callbacks=[lambda p: seen.append(p.step) or len(seen) == 2]
    )
    assert len(seen) == 2
    assert len(short) == 2
    assert not short.measured
    bound = int(np.sort(path.nonzeros)[3])
    small = ranker.path(
        OneReading(lists(0)), eval_set=lists(1), solvers=("rda", "psgd"), n_steps=4,
        max_nonzero=bound,
    )  # fmt: skip
    kept = path.nonzeros <= bound
    assert small.nonzeros.tolist() == path.nonzeros[kept].tolist()
    assert small.solvers == tuple(np.array(path.solvers)[kept])
    assert (small.seconds > 0).all()
    assert small.l1[0] / small.l1[-1] < 1.001e3

    class Nothing(OneReading):
        def __iter__(self):
            return iter(())

    with pytest.raises(NoPairsError):
        ranker.path(Nothing(lists(0)))
    for wrong in ({"solvers": ("adam",)}, {"max_latency": 0.0}, {"n_steps": 0}):
        with pytest.raises(ParameterError):
            ranker.path(lists(0), **wrong)


def test_the_largest_strength_leaves_hardly_any_weight(path):
    for curve in path.curves().values():
        np.testing.assert_allclose(curve.l1 / curve.l1[0], np.geomspace(1, 1e-3, 4), rtol=1e-9)
    constant = Dataset.from_arrays(np.ones((12, 2)), np.tile([1.0, 0.0], 6), np.repeat([0, 1], 6))
    nothing = ElasticRanker(random_state=0).path(constant, n_steps=2)
    assert (nothing.l1 > 0).all()
    assert nothing.nonzeros.tolist()[:4] == [0] * 4


def test_latency():
    for text in ("0.009ms", "9us", " 0.009 "):
        assert parse_latency(text) == pytest.approx(0.009)
    with pytest.raises(ParameterError) as caught:
        parse_latency("fast")
    assert caught.value.parameter == "max_latency"
    assert 0 < scoring_latency(np.zeros(20), lists(0)) < 1


@pytest.mark.cli
def test_the_command(tmp_path):
    import json

    from rankine.cli.main import app, find_commands

    find_commands()

    def write(name, data):
        with (tmp_path / name).open("w") as file:
            for x, y, q in zip(data.X, data.y, data.qid, strict=True):
                row = " ".join(f"{j}:{v:.4f}" for j, v in enumerate(x, 1))
                file.write(f"{y:g} qid:{q} {row}\n")
        return str(tmp_path / name)

    train, valid = write("train.txt", lists(0)), write("valid.txt", lists(1))
    out, plot = str(tmp_path / "m.rankine"), str(tmp_path / "p.svg")
    words = ["path", train, "--ranker", "elastic", "--valid", valid, "--n-steps", "3", "--json"]
    words += ["--solvers", "rda", "--max-latency", "10ms", "--out", out, "--plot", plot]
    words += ["--n-features", "20", "--min-ratio", "0.001", "--metric", "recall@1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert [step["solver"] for step in result["steps"]] == ["rda"] * 3
    assert (tmp_path / "m.rankine").stat().st_size > 100
    assert "<svg" in (tmp_path / "p.svg").read_text()
    table = CliRunner().invoke(app, [word for word in words if word != "--json"])
    assert "ms an item" in table.stdout
