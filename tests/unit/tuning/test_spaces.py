from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import optuna
import pytest

from error_checks import raises_for
from rankine import AdditiveRanker, ElasticRanker, LeastSquaresRanker, RankSVM, SPDRanker
from rankine.core.errors import ParameterError
from rankine.losses.base import PAIR_LOSSES
from rankine.rankers.registry import RANKERS, Choice, Number, ranker_class
from rankine.tuning.spaces import Space, read_dimension
from rankine.updates import UPDATES


def suggest(space, **params):
    """What a space asks of a trial with the given answers."""
    return space.suggest(optuna.trial.FixedTrial(params))


@pytest.mark.parametrize("name", RANKERS)
def test_every_ranker_declares_parameters_it_has(name):
    kind = ranker_class(name)
    assert kind.search_space
    assert set(kind.search_space) <= set(kind().get_params())


def test_text_becomes_ranges_and_choices():
    assert read_dimension("1e-6..0.1:log") == Number(1e-6, 0.1, log=True)
    assert read_dimension("1..10") == Number(1, 10, integer=True)
    assert read_dimension("1..10", Number(0.1, 2.0, log=True)) == Number(1, 10, log=True)
    assert read_dimension("1..10:linear", Number(0.1, 2.0, log=True)) == Number(1, 10)
    assert read_dimension("none, 3,true").values == (None, 3, True)
    assert read_dimension("1..10: log ", Number(0.1, 2.0)) == Number(1, 10, log=True)
    assert read_dimension("1..2.5") == Number(1, 2.5)
    assert read_dimension("1..10", Number(1, 5, integer=True)) == Number(1, 10, integer=True)
    assert read_dimension("1..10", Choice((1, 2))) == Number(1, 10, integer=True)
    assert read_dimension(" a ,, b").values == ("a", "b")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a..b",
        "1..b",
        "true..2",
        "1..false",
        "1..2:cubic",
        "1..2:",
        "2..1",
        "0..1:log",
        "1..nan",
        "1..inf",
    ],
)
def test_unreadable_ranges_are_refused(text):
    with pytest.raises(ParameterError):
        read_dimension(text)


def test_conditions_decide_what_is_read():
    space = Space({"elastic": ElasticRanker()})
    asked = {"solver": "psgd", "loss": "hinge", "objective": "ndcg", "scale": "auto"}
    numbers = {"step_factor": 1.0, "l1": 1e-3, "l2": 1e-3, "theta": 1e-3}
    assert set(suggest(space, **asked, **numbers)) == {*asked, "step_factor", "l2", "theta"}
    asked["solver"] = "tgd"
    assert set(suggest(space, **asked, **numbers)) == {*asked, "step_factor", "l1"}


def test_a_fixed_condition_counts():
    space = Space({"spd": SPDRanker()}, None, {"solver": "passive_aggressive"})
    assert "aggressiveness" in space.active({})
    assert "l2" not in space.active({})
    assert space.ranker({"aggressiveness": 0.5}).get_params()["solver"] == "passive_aggressive"
    narrowed = Space({"spd": SPDRanker()}, {"solver": "pegasos"})
    assert "l2" in narrowed.active({})
    assert narrowed.ranker({}).solver == "pegasos"


def test_narrowing_keeps_conditions_and_adds_parameters():
    space = Space(
        {"elastic": ElasticRanker()}, {"l1": "1e-4..1e-2", "batch_lists": (1, 4), "margin": [0, 1]}
    )
    assert space.dimensions["l1"] == Number(1e-4, 1e-2, log=True, unless={"solver": ("psgd",)})
    assert space.dimensions["margin"].values == (0, 1)
    assert isinstance(space.dimensions["batch_lists"], Choice)
    assert {"margin", "batch_lists"} <= space.active({})  # read whatever else is chosen
    rewritten = Space(
        {"elastic": ElasticRanker()},
        {"l1": Number(1e-4, 1e-2), "l2": (1e-3, 1e-1), "margin": (0, 1, 2), "eta0": 3.0,
         "theta": Number(0.1, 0.2, unless={"solver": ("rda",)})},
    )  # fmt: skip
    assert rewritten.dimensions["l1"] == Number(1e-4, 1e-2, unless={"solver": ("psgd",)})
    declared_names = Space({"elastic": ElasticRanker()}).dimensions
    declared = declared_names["l2"]
    assert rewritten.dimensions["l2"] == replace(declared, low=1e-3, high=1e-1)
    assert rewritten.dimensions["margin"].values == (0, 1, 2)
    assert rewritten.dimensions["theta"].unless == {"solver": ("rda",)}
    assert not rewritten.dimensions["theta"].when
    assert rewritten.fixed == {"eta0": 3.0}
    assert "step_factor" in declared_names
    assert "step_factor" not in rewritten.dimensions  # eta0 is given
    distributions = space.distributions()
    assert distributions["l1"] == optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True)


def test_none_is_a_word_where_the_ranker_says_so():
    space = Space({"ranksvm": RankSVM()}, {"scale": "none,standard", "C": "none,1"})
    assert space.dimensions["scale"].values == ("none", "standard")
    assert space.dimensions["C"].values == (None, 1)
    assert Space({"ranksvm": RankSVM()}, None, {"scale": None}).fixed == {"scale": "none"}


def test_spaces_are_told_by_what_they_search_and_fix():
    space = Space({"spd": SPDRanker()}, {"n_steps": (10, 99)}, {"solver": "pegasos"})
    told = space.describe()
    assert told["searched"]["n_steps"][:2] == [10, 99]
    assert told["fixed"] == {"solver": "'pegasos'"}
    assert "solver" not in told["searched"]
    both = {name: ranker_class(name)() for name in ("spd", "ranksvm")}
    several = Space(both, {"ranker": ["spd", "ranksvm"]}, {"ranksvm.loss": "hinge"})
    assert several.dimensions["ranker"].values == ("spd", "ranksvm")
    assert not several.dimensions["ranker"].when
    assert several.ranker({"ranker": "ranksvm"}).loss == "hinge"
    chosen = Space(both, None, {"ranker": "spd"})
    assert "spd.solver" in chosen.active({})
    assert "ranksvm.loss" not in chosen.active({})
    assert type(chosen.ranker({})) is SPDRanker
    with pytest.raises(ParameterError, match="'l2'"):
        Space(both, {"l2": "1..2"})


def test_a_condition_on_a_condition_is_asked_last():
    class Chained(SPDRanker):
        search_space: ClassVar = {
            "l2": Number(0.1, 1.0, when={"margin": (2.0,)}),
            "margin": Choice((1.0, 2.0), when={"sampling": ("query",)}),
            "sampling": Choice(("query", "uniform")),
            "n_steps": Number(1, 5, integer=True, unless={"margin": (2.0,)}),
        }

    space = Space({"spd": Chained()})
    every = {"l2": 0.5, "margin": 2.0, "sampling": "query", "n_steps": 3}
    assert set(suggest(space, **every)) == {"l2", "margin", "sampling"}
    assert set(suggest(space, **{**every, "margin": 1.0})) == {"n_steps", "margin", "sampling"}
    assert set(suggest(space, **{**every, "sampling": "uniform"})) == {"n_steps", "sampling"}
    distributions = space.distributions()
    assert distributions["n_steps"] == optuna.distributions.IntDistribution(1, 5)

    class Twice(SPDRanker):
        search_space: ClassVar = {
            "l2": Number(0.1, 1.0, when={"sampling": ("query",), "margin": (2.0,)}),
            "margin": Choice((1.0, 2.0), when={"sampling": ("query",)}),
            "sampling": Choice(("query", "uniform")),
        }

    both = suggest(Space({"spd": Twice()}), l2=0.5, margin=2.0, sampling="query")
    assert set(both) == {"l2", "margin", "sampling"}


def test_unknown_parameters_and_empty_spaces_are_refused():
    with raises_for("space"):
        Space({"ranksvm": RankSVM()}, {"lambda": "1..2"})
    with raises_for("space"):
        Space({"ranksvm": RankSVM()}, None, {"l2": 1.0, "loss": "hinge", "scale": "none"})


def test_registered_updates_and_losses_are_searched(monkeypatch):
    monkeypatch.setitem(UPDATES, "mine", UPDATES["rda"])
    monkeypatch.setitem(PAIR_LOSSES, "my_loss", PAIR_LOSSES["hinge"]._replace(name="my_loss"))
    elastic = Space({"elastic": ElasticRanker()})
    assert "mine" in elastic.dimensions["solver"].values
    assert {"l1", "l2"} <= elastic.active({"solver": "mine"})
    assert "my_loss" in Space({"ranksvm": RankSVM()}).dimensions["loss"].values


def test_several_rankers_are_one_space():
    space = Space({name: ranker_class(name)() for name in ("spd", "ranksvm")}, {"spd.n_steps": [9]})
    assert space.fixed == {"spd.n_steps": 9}
    setting = {"ranker": "ranksvm", "ranksvm.l2": 0.5, "ranksvm.loss": "hinge"}
    assert space.active(setting) == {"ranker", "ranksvm.l2", "ranksvm.loss", "ranksvm.scale"}
    ranker = space.ranker(setting)
    assert (type(ranker), ranker.l2, ranker.loss) == (RankSVM, 0.5, "hinge")
    assert space.ranker({"ranker": "spd", "spd.l2": 0.1}).n_steps == 9


def test_a_parameter_added_to_one_of_several_rankers_is_read_with_it():
    both = {name: ranker_class(name)() for name in ("spd", "ranksvm")}
    space = Space(both, {"ranksvm.tol": "1e-4..1e-2:log", "spd.margin": [0.5, 1.0]})
    assert "ranksvm.tol" in space.active({"ranker": "ranksvm"})
    assert "ranksvm.tol" not in space.active({"ranker": "spd"})
    assert "spd.margin" in space.active({"ranker": "spd"})
    assert "spd.margin" not in space.active({"ranker": "ranksvm"})
    assert space.ranker({"ranker": "ranksvm", "ranksvm.tol": 5e-3}).tol == 5e-3


def test_default_settings_are_those_that_the_space_holds():
    elastic = Space({"elastic": ElasticRanker()}).defaults()
    assert elastic == [
        {
            "solver": "rda",
            "loss": "logistic",
            "objective": "ndcg",
            "step_factor": 1.0,
            "l1": 1e-5,
            "l2": 1e-4,
            "scale": "auto",
        }
    ]
    narrow = Space({"elastic": ElasticRanker()}, {"l1": "1e-3..1e-1:log"})
    assert narrow.defaults() == []
    assert Space({"least-squares": LeastSquaresRanker()}).defaults() == []  # l2="auto"
    rankers = {"ranksvm": RankSVM(), "additive": AdditiveRanker()}
    (setting,) = Space(rankers, fixed={"ranksvm.loss": "logistic"}).defaults()
    assert setting == {"ranker": "ranksvm", "ranksvm.l2": 0.002, "ranksvm.scale": "auto"}
