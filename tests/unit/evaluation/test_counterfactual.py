"""Estimates on another ranker's log: the formulas, the truth of simulations, and refusals."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from scipy import stats
from typer.testing import CliRunner

from error_checks import raises_for
from rankine import Dataset, LinearModel
from rankine.cli.main import app, find_commands
from rankine.core.errors import OverlapError, ParameterError, SchemaError
from rankine.evaluation.counterfactual import counterfactual, value_estimates
from rankine.logs.simulation import PositionBased, simulate

SEARCHES, ITEMS = 40, 6
USER = PositionBased(1.0)
PAIRS = {"item": "item", "search": "search"}


class World:
    """A catalogue, its old ranker, and a new one whose true value is known."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(SEARCHES * ITEMS, 3))
        qid = np.repeat(np.arange(SEARCHES), ITEMS)
        self.catalogue = Dataset.from_arrays(self.X, np.zeros(len(qid)), qid)
        self.taste = self.X @ [1, -1, 0.5]
        self.old, self.new = self.X @ [1, 0, 0], self.X @ [1, -1, 0]
        standard = (self.taste - self.taste.mean()) / self.taste.std()
        self.attraction = (1 / (1 + np.exp(1.5 - 1.5 * standard))).reshape(SEARCHES, ITEMS)

    def value(self, scores, k=ITEMS):
        order = np.argsort(-scores.reshape(SEARCHES, ITEMS), axis=1)
        shown = np.take_along_axis(self.attraction, order, 1)
        return (shown * USER.examination_probabilities(ITEMS))[:, :k].sum(axis=1).mean()

    def log(self, seed, exploration=1.0, sessions=2000):
        return simulate(
            sessions, users=USER, rankers=self.old, catalogue=self.catalogue, taste=self.taste,
            exploration=exploration, list_length=ITEMS, random_state=seed,
        )  # fmt: skip


@pytest.fixture(scope="module")
def world():
    return World()


def models(world):
    return {
        "position_based": {
            "model": "position_based",
            "propensity": USER.examination_probabilities(ITEMS),
        },
        "independent": {"model": "independent"},
    }


@pytest.mark.parametrize("model", ["position_based", "independent"])
def test_estimates_are_close_to_the_true_value(world, model):
    log = world.log(0, sessions=40_000)
    found = counterfactual(log, world.new[log.row], **models(world)[model], **PAIRS)
    truth = world.value(world.new)
    assert world.value(world.old) + 0.1 < truth
    for estimate in found.estimates:
        assert abs(estimate.value - truth) < 4 * estimate.error + 0.005, estimate
    assert found.overlap > 0.99
    top = counterfactual(log, world.new[log.row], k=2, **models(world)[model], **PAIRS)
    assert abs(top["dr"].value - world.value(world.new, k=2)) < 4 * top["dr"].error + 0.005
    assert top.old.value == log.clicked[log.position <= 2].sum() / 40_000


@pytest.mark.parametrize("model", ["position_based", "independent"])
def test_intervals_cover_the_true_value(world, model):
    """A short form of the 1,000 simulations in benchmarks/clicks.py."""
    truth, covered = world.value(world.new), []
    for seed in range(60):
        log = world.log(seed)
        found = counterfactual(log, world.new[log.row], **models(world)[model], **PAIRS)
        covered.append([e.low <= truth <= e.high for e in found.estimates])
    assert (np.mean(covered, axis=0) > 0.85).all()


def test_the_value_of_the_logged_order_is_its_mean_reward(world):
    log = world.log(0, exploration=0.0)
    found = counterfactual(log, -log.position, **models(world)["position_based"])
    clicks = log.clicked.sum() / 2000
    assert found.old.value == clicks
    assert found["ips"].value == pytest.approx(clicks, rel=1e-12)
    assert found.effective_rows == pytest.approx(len(log.row))


def test_position_based_weights_equal_a_loop_over_rows(world):
    log = world.log(1)
    theta = USER.examination_probabilities(ITEMS)
    scores = world.new[log.row]
    found = counterfactual(log, scores, model="position_based", propensity=theta)
    value = 0.0
    for session in range(2000):
        rows = np.flatnonzero(log.session == session)
        new = np.empty(len(rows), dtype=int)
        new[np.argsort(-scores[rows])] = np.arange(len(rows))
        weight = theta[new] / theta[log.position[rows] - 1]
        value += (weight * log.clicked[rows]).sum()
    assert found["ips"].value == pytest.approx(value / 2000, rel=1e-12)


def test_logged_probabilities_give_the_weights(world):
    """Random lists of three: every item stands anywhere with probability 1/3."""
    rng = np.random.default_rng(0)
    position = np.argsort(rng.random((3000, 3)), axis=1) + 1
    worth = np.array([0.6, 0.3, 0.1])
    log = {
        "session": np.repeat(np.arange(3000), 3),
        "item": np.tile([0, 1, 2], 3000),
        "position": position.ravel(),
        "clicked": (rng.random((3000, 3)) < worth / position).astype(int).ravel(),
        "chance": np.full(9000, 1 / 3),
    }
    found = counterfactual(
        log, -log["item"].astype(float), model="independent", logged="chance", item="item"
    )
    truth = (worth / [1, 2, 3]).sum()
    for estimate in found.estimates:
        assert abs(estimate.value - truth) < 4 * estimate.error
    assert 0.9 < found.overlap < 1.1
    certain = {**log, "chance": np.ones(9000)}  # the old order itself
    given = {"model": "independent", "logged": "chance"}
    found = counterfactual(certain, -certain["position"], **given)
    assert found["ips"].value == found.old.value
    for chance in (0.0, -0.5, 1.5):
        with pytest.raises(SchemaError, match=r"outside \(0, 1\]"):
            counterfactual({**log, "chance": np.full(9000, chance)}, -log["position"], **given)
    with pytest.raises(ParameterError) as caught:
        counterfactual(log, -log["position"], logged="chance", propensity=[1.0])
    assert caught.value.parameter == "logged"


def test_weights_of_logged_probabilities_equal_a_loop_over_rows():
    log = small_log((1, 2, 3, 4))
    log["chance"] = np.random.default_rng(0).choice([0.2, 0.5, 1.0], 240)
    given = {"model": "independent", "logged": "chance", "min_effective": 1.0, "min_overlap": 0.0}
    order = np.lexsort((log["position"], -log["score"], log["session"]))
    new = np.empty(240, dtype=int)
    new[order] = np.tile([1, 2, 3, 4], 60)
    same = (new == log["position"]) & (new <= 3)
    weight = np.where(same, 1 / log["chance"], 0.0)
    found = counterfactual(log, "score", k=3, **given)
    assert found["ips"].value == pytest.approx((weight * log["clicked"]).sum() / 60)
    assert found.overlap == pytest.approx(weight.sum() / 180)
    cut = counterfactual(log, "score", k=3, max_weight=2.0, **given)
    assert cut.clipped == pytest.approx((weight > 2).mean())
    assert cut["ips"].value == pytest.approx((np.minimum(weight, 2) * log["clicked"]).sum() / 60)


def small_log(places):
    """Sixty lists of four items, shown at some of the places."""
    rng = np.random.default_rng(2)
    order = np.argsort(rng.random((60, 4)), axis=1)
    position = np.array(places)[order].ravel()
    position[0] = max(places) + 1  # the only row there
    return {
        "session": np.repeat(np.arange(60), 4),
        "search": np.repeat(rng.integers(0, 3, 60), 4),
        "item": np.argsort(rng.random((60, 6)), axis=1)[:, :4].ravel(),
        "position": position,
        "clicked": rng.choice([0, 0, 1, 3], 240),
        "score": rng.choice([0.1, 0.2, 0.3], 240),
    }


class ByHand:
    """The estimates from their definitions, row by row and list by list."""

    def __init__(self, log, theta=None, k=None, max_weight=np.inf):
        rows = range(len(log["session"]))
        lists = sorted(set(log["session"].tolist()))
        value, old = log["clicked"].astype(float), log["position"] - 1
        new = {}
        for one in lists:
            mine = [i for i in rows if log["session"][i] == one]
            mine.sort(key=lambda i: (-log["score"][i], old[i]))
            new |= {i: rank for rank, i in enumerate(mine)}
        pair = [(log["search"][i], log["item"][i]) for i in rows]
        look = (lambda p: 1.0) if theta is None else (lambda p: theta[min(p, len(theta) - 1)])
        was = [pair[i] if theta is not None else (*pair[i], old[i]) for i in rows]
        would = [pair[i] if theta is not None else (*pair[i], new[i]) for i in rows]
        shown = [float(k is None or new[i] < k) * look(new[i]) for i in rows]

        def total(keys, numbers):
            found = dict.fromkeys([*was, *would], 0.0)
            for key, number in zip(keys, numbers, strict=True):
                found[key] += number
            return found

        before, after = total(was, [look(old[i]) for i in rows]), total(would, shown)
        won, times = total(was, value), total(was, np.ones(len(rows)))
        whole = {c: after[c] / before[c] if before[c] else 0.0 for c in before}
        cut = {c: min(w, max_weight) for c, w in whole.items()}
        mean = {c: won[c] / before[c] if before[c] else 0.0 for c in before}
        seen = [shown[i] * cut[would[i]] / (whole[would[i]] or 1.0) for i in rows]
        self.weight = np.array([cut[was[i]] for i in rows])
        share = [
            seen[i] * mean[would[i]]
            + (value[i] - look(old[i]) * mean[was[i]])
            * cut[was[i]]
            * np.sqrt(times[was[i]] / max(times[was[i]] - 1, 1))
            for i in rows
        ]

        def by_list(numbers):
            return np.array(
                [sum(numbers[i] for i in rows if log["session"][i] == one) for one in lists]
            )

        won, held, hope = by_list(share), by_list(seen), by_list(shown)
        ratio = won.sum() / held.sum()
        spread = ratio * hope.mean() + (won - ratio * held) * hope.mean() / held.mean()
        self.values = {"ips": won, "snips": spread}
        self.overlap = held.sum() / hope.sum()
        self.clipped = np.mean([whole[was[i]] > max_weight for i in rows])
        self.old = by_list(value * (old < (np.inf if k is None else k)))
        # the model of clicks: an average item at the place, times the pair in the other half
        if theta is None:
            at = {p: np.mean(value[old == p] > 0) for p in set(old.tolist())}
        else:
            looks = sum(look(p) for p in old)
            at = {p: look(p) * np.sum(value > 0) / looks for p in set(old.tolist())}
        worth = value.sum() / sum(at[p] for p in old)
        half = [lists.index(log["session"][i]) % 2 for i in rows]
        relevance = []
        for i in rows:
            like = [j for j in rows if pair[j] == pair[i] and half[j] != half[i]]
            clicks, expected = sum(value[j] for j in like), sum(at[old[j]] for j in like)
            relevance.append((clicks + worth) / (expected + 1))
        fault = self.weight * (value - [at[old[i]] * relevance[i] for i in rows])
        counted = [float(k is None or new[i] < k) for i in rows]
        last = max(at)
        direct = [counted[i] * at.get(min(new[i], last), 0.0) * relevance[i] for i in rows]
        self.values["dr"] = by_list(direct) + by_list(fault)


@pytest.mark.parametrize("places", [(1, 2, 3, 4), (1, 2, 4, 7), (1, 1, 2, 2)])
@pytest.mark.parametrize("theta", [None, (1.0, 0.5, 0.4)])
@pytest.mark.parametrize("more", [{}, {"k": 2}, {"max_weight": 1.25}])
def test_estimates_equal_a_loop_over_rows(places, theta, more):
    log = small_log(places)
    model = {"model": "independent"} if theta is None else {"propensity": theta}
    found = counterfactual(
        log, "score", **model, **PAIRS, **more, min_effective=1.0, min_overlap=0.0, confidence=0.9
    )
    hand = ByHand(log, theta, **more)
    assert (found.lists, found.rows, found.confidence) == (60, 240, 0.9)
    assert found.overlap == pytest.approx(hand.overlap)
    assert found.clipped == pytest.approx(hand.clipped)
    w = hand.weight
    assert found.effective_rows == pytest.approx(w.sum() ** 2 / (w**2).sum())
    for name, values in {"old": hand.old, **hand.values}.items():
        one = found.old if name == "old" else found[name]
        assert one.name == name
        assert one.value == pytest.approx(values.mean(), rel=1e-9)
        assert one.error == pytest.approx(values.std(ddof=1) / np.sqrt(60), rel=1e-9)
        reach = stats.norm.ppf(0.95) * one.error
        assert (one.low, one.high) == pytest.approx((one.value - reach, one.value + reach))


def test_rows_of_one_search_and_item_are_pooled():
    log, theta = small_log((1, 2, 3, 4)), (1.0, 0.5, 0.4)
    free = {"min_effective": 1.0, "min_overlap": 0.0}
    bare = counterfactual(log, "score", propensity=theta, **free)
    with_item = counterfactual(log, "score", propensity=theta, item="item", **free)
    assert with_item["ips"] == bare["ips"]
    assert [one.name for one in bare.estimates] == ["ips", "snips"]
    pooled = counterfactual(log, "score", propensity=theta, **PAIRS, **free)
    assert pooled["ips"] != bare["ips"]
    with pytest.raises(ParameterError) as caught:
        counterfactual(log, "score", model="independent", item="item", **free)
    assert caught.value.parameter == "model"


def test_value_estimates_accept_lists_controls_and_predictions():
    """Two lists of two rows and one of one, with a control and a model of clicks."""
    r, w, lists = np.array([1.0, 0, 2, 1, 0]), np.array([2.0, 0.5, 1, 3, 0]), [0, 0, 1, 1, 2]
    e, q, direct = np.array([1.0, 0.5, 1, 0.5, 1]), r / 2, np.array([1.0, 2.0, 4.0])
    free = {"min_effective": 0.0, "min_overlap": 0.0}
    found = value_estimates(r, w, lists, control=e, predicted=q, direct=direct, **free)
    won, held, hope = np.array([2.0, 5, 0]), np.array([2.25, 2.5, 0]), np.array([1.5, 1.5, 1])
    assert found["ips"].value == pytest.approx(won.mean())
    assert found["snips"].value == pytest.approx(won.sum() / held.sum() * hope.mean())
    assert found["dr"].value == pytest.approx((direct.sum() + 1.0 + 2.5) / 3)
    assert found.overlap == pytest.approx(held.sum() / hope.sum())
    assert (found.lists, found.rows) == (3, 5)
    spread = held.sum() / 3
    other = value_estimates(r, w, lists, control=e, expected=np.full(3, spread), **free)
    assert other.overlap == pytest.approx(1.0)
    assert [one.name for one in other.estimates] == ["ips", "snips"]
    single = value_estimates([1.0], [1.0], min_effective=1.0, min_overlap=1.0)
    assert single["ips"].error == np.inf  # both limits are met, if barely


def open_bandit(policy, campaign):
    path = Path(os.environ["RANKINE_DATA"]) / "open_bandit_small.tar.xz"
    with tarfile.open(path) as archive:
        name = f"open_bandit_small/{policy}/{campaign}/{campaign}.csv"
        text = archive.extractfile(name).read()
    table = pyarrow.csv.read_csv(io.BytesIO(text))
    names = ("item_id", "position", "click", "propensity_score")
    return {name: table[name].to_numpy() for name in names}


#: IPS, self-normalised IPS and DR of Open Bandit Pipeline 0.4.1 itself, for the same inputs.
PIPELINE = {
    ("random", "bts", "men"): (0.005656266700835461, 0.005739864701951365, 0.005777691945557614),
    ("random", "bts", "women"): (0.0058056917829497874, 0.005833036087191038, 0.00584238912184327),
    ("bts", "random", "men"): (0.0029635626142934584, 0.0031485442734250305, 0.0031892717302487157),
    ("bts", "random", "women"): (
        0.0075631871339821915,
        0.002353949125726502,
        -0.0014612067219963252,
    ),
}


@pytest.mark.data
@pytest.mark.skipif("RANKINE_DATA" not in os.environ, reason="RANKINE_DATA is not set")
@pytest.mark.parametrize("campaign", ["men", "women"])
@pytest.mark.parametrize(("old", "new"), [("random", "bts"), ("bts", "random")])
def test_open_bandit_by_the_published_formulas(old, new, campaign):
    """IPS, self-normalised IPS and DR of Saito et al. 2021, section 4, written out."""
    log, target = open_bandit(old, campaign), open_bandit(new, campaign)
    places, items = 3, int(max(log["item_id"].max(), target["item_id"].max())) + 1
    policy = np.zeros((places, items))
    np.add.at(policy, (target["position"] - 1, target["item_id"]), 1.0)
    policy /= policy.sum(axis=1, keepdims=True)
    place, item, reward = log["position"] - 1, log["item_id"], log["click"].astype(float)
    weight = policy[place, item] / log["propensity_score"]
    rate = (np.bincount(item, weights=reward, minlength=items) + 1) / (
        np.bincount(item, minlength=items) + 200
    )
    direct = policy[place] @ rate
    found = value_estimates(
        reward, weight, predicted=rate[item], direct=direct, min_overlap=0.0, min_effective=1.0
    )
    n = len(reward)
    ips = sum(w * r for w, r in zip(weight, reward, strict=True)) / n
    robust = sum(d + w * (r - q) for d, w, r, q in zip(direct, weight, reward, rate[item])) / n  # noqa: B905
    assert found["ips"].value == pytest.approx(ips, rel=1e-9)
    assert found["snips"].value == pytest.approx(ips * n / weight.sum(), rel=1e-9)
    assert found["dr"].value == pytest.approx(robust, rel=1e-9)
    values = [found[name].value for name in ("ips", "snips", "dr")]
    assert values == pytest.approx(PIPELINE[old, new, campaign], rel=1e-12)
    assert found.old.value == pytest.approx(reward.mean())


def test_clipping_and_effective_rows():
    weight = np.array([1.0, 1.0, 4.0, 0.0])
    found = value_estimates([0, 1, 1, 0], weight, max_weight=2.0, min_effective=1.0)
    assert found.clipped == 0.25
    same = value_estimates([0, 1, 1, 0], weight, max_weight=4.0, min_effective=1.0)
    assert same.clipped == 0.0
    free = value_estimates([0, 1, 1, 0], weight, max_weight=0.5, min_effective=1.0, min_overlap=0.1)
    assert free["ips"].value == 0.25
    assert found["ips"].value == 0.75
    assert found.effective_rows == pytest.approx(16 / 6)


def test_weights_from_counts_are_clipped_too(world):
    log = world.log(2)
    options = {**models(world)["position_based"], **PAIRS}
    whole = counterfactual(log, world.new[log.row], **options)
    cut = counterfactual(log, world.new[log.row], max_weight=1.5, **options)
    assert cut.clipped > 0
    assert cut["ips"].value < whole["ips"].value
    assert cut.overlap < 1


def test_a_log_with_too_little_overlap_is_refused(world):
    log = world.log(0, exploration=0.0)
    with pytest.raises(OverlapError) as caught:
        counterfactual(log, log.position.astype(float), model="independent", **PAIRS)
    assert caught.value.parameter == "min_overlap"
    with pytest.raises(OverlapError) as caught:
        value_estimates([1.0] * 50, [1.0] * 50)
    assert caught.value.parameter == "min_effective"
    with pytest.raises(ParameterError) as caught:
        counterfactual(log, world.new[log.row], model="independent")
    assert caught.value.parameter == "model"
    with pytest.raises(ParameterError) as caught:
        counterfactual(log, world.new[log.row])
    assert caught.value.parameter == "propensity"
    with pytest.raises(ParameterError) as caught:
        counterfactual(log, world.new[log.row], model="psychic")
    assert caught.value.parameter == "model"
    with pytest.raises(SchemaError) as caught:
        counterfactual(log, world.new, propensity=[1.0])
    assert caught.value.parameter == "scores"
    for reward, weight in (([1.0], [-1.0]), ([1.0, 1.0], [1.0]), ([[1.0]], [[1.0]]),
                           ([np.nan], [1.0]), ([1.0], [np.inf])):  # fmt: skip
        with pytest.raises(SchemaError):
            value_estimates(reward, weight)
    for confidence in (0, 1):
        with pytest.raises(ParameterError) as caught:
            value_estimates([1.0] * 200, [1.0] * 200, confidence=confidence)
        assert caught.value.parameter == "confidence"
    for limit in (0.0, -1.0):
        with pytest.raises(ParameterError) as caught:
            value_estimates([1.0] * 200, [1.0] * 200, max_weight=limit)
        assert caught.value.parameter == "max_weight"
    for more in ({"weight": [0.0] * 200}, {"weight": [1.0] * 200, "control": 0.0}):
        with pytest.raises(OverlapError) as caught:
            value_estimates([1.0] * 200, **more)
        assert caught.value.parameter == "min_overlap"
    for theta in ([], [[1.0]], [1.0, 0.0], [-1.0]):
        with pytest.raises(ParameterError) as caught:
            counterfactual(log, world.new[log.row], propensity=theta)
        assert caught.value.parameter == "propensity"
    with pytest.raises(ParameterError, match="both or neither"):
        value_estimates([1.0], [1.0], predicted=[0.0])


def test_the_command(world, tmp_path):
    find_commands()
    log = world.log(0)
    pq.write_table(log.to_table(features=True), tmp_path / "log.parquet")
    (tmp_path / "looks.json").write_text(
        json.dumps({"propensity": USER.examination_probabilities(6).tolist()})
    )
    model = LinearModel.from_weights([1.0, -1.0, 0.0], feature_names=["x1", "x2", "x3"])
    model.save(tmp_path / "new.rankine")
    command = ["evaluate", "new.rankine", "log.parquet", "--counterfactual", "--propensity"]
    command += ["looks.json", "--query", "session", "--label", "clicked", "--item", "item"]
    command += ["--search", "search"]
    command = [str(tmp_path / word) if "." in word else word for word in command]
    run = CliRunner().invoke(app, [*command, "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    options = {**models(world)["position_based"], **PAIRS}
    expected = counterfactual(log, world.new[log.row], **options)
    assert found["estimates"][0]["value"] == pytest.approx(expected["ips"].value)
    assert "effective rows" in CliRunner().invoke(app, command).stdout
    with raises_for("--per-query"):
        CliRunner().invoke(app, [*command, "--per-query"], catch_exceptions=False)
