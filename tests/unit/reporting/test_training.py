"""The trace of a model file is read back and drawn."""

from __future__ import annotations

import pytest
from markupsafe import Markup

import rankine
from rankine import LinearModel
from rankine.reporting.training import training, training_section
from unit.reporting.report_cases import shop, words
from unit.reporting.test_svg import Drawn


def inside(element):
    return words(" ".join(element.itertext()))


def story(**held):
    model = LinearModel.from_weights([1.0], provenance=held, metric="map")
    return training_section(training(model))


def axes(section, title):
    """The figure of this title, and its ticks across and up."""
    root = Drawn(Markup("<div>%s</div>") % section.body).root
    (figure,) = [one for one in root.iter("figure") if one.find("h3").text == title]
    ticks = [one for one in figure.iter("text") if "tick" in one.attrib["class"]]
    across = [one.text for one in ticks if "mid" in one.attrib["class"]]
    up = [one.text for one in ticks if "end" in one.attrib["class"]]
    return figure, across, up


def test_the_training_of_a_model_can_be_read_back():
    ranker = rankine.RankSVM(scale="standard", l2=0.02, metric="map").fit(shop()[0])
    found = training(ranker.to_model())
    trace = ranker.solution_.trace
    assert found.step_name == "iteration"
    assert found.steps == [record["iteration"] for record in trace]
    assert found.curves["objective"] == pytest.approx([r["objective"] for r in trace], rel=1e-5)
    assert found.certificate["gap"] == ranker.solution_.certificate["gap"]
    assert training(LinearModel.from_weights([1.0])).curves == {}
    checks = {"step": [0, 7, None], "value": [0.3, 0.4, 0.5]}
    checked = training(LinearModel.from_weights([1.0], provenance={"validation": checks}))
    assert checked.validation_steps == [0.0, 7.0, 0.0]
    assert checked.validation == [0.3, 0.4, 0.5]
    broken = LinearModel.from_weights([1.0], provenance={"trace": {"a": [1], "b": [1, 2]}})
    assert training(broken).curves == {}


def test_the_section_of_training_draws_what_was_recorded():
    def section(**story):
        return training_section(training(LinearModel.from_weights([1.0], provenance=story)))

    checks = {"step": [1, 2], "value": [0.3, 0.4]}
    objective = {"iteration": [1, 2], "objective": [3.0, 2.0]}
    assert section() is None
    facts = section(n_iter=7)
    assert "no trace" in facts.lead
    assert "Validation" not in str(facts.body)
    for story, titles in (
        ({"validation": checks}, {"Validation"}),
        ({"validation": {"step": [1], "value": [0.3]}, "n_iter": 1}, set()),
        ({"trace": objective}, {"Objective"}),
        ({"trace": {**objective, "gap": [1.0, 0.5]}, "validation": checks},
         {"Objective", "Gap", "Validation"}),
        ({"trace": {"lists": [5, 9], "progressive_loss": [0.4, 0.3]}}, {"Progressive loss"}),
    ):  # fmt: skip
        found = section(**story)
        shown = {name for name in ("Objective", "Gap", "Validation", "Progressive loss")
                 if f">{name}<" in str(found.body)}  # fmt: skip
        assert shown == titles
        assert ("What was recorded" in found.lead) == bool(titles)


def test_facts_of_the_training():
    proof = {"relative_gap": 0.25, "steps": 3000.0, "odd": "x"}
    told = words(story(n_iter=1200, stop_reason="converged", certificate=proof).body)
    assert told == (
        "steps or iterations 1,200 ended when the tolerance was met relative gap 0.250000 "
        "steps 3,000"
    )
    assert "ended by a thunderbolt" in words(story(stop_reason="by_a_thunderbolt").body)
    assert words(story(certificate={"big": 1e15}).body) == "big 1e+15"
    assert words(story(certificate={"big": -1e14}).body) == "big -100,000,000,000,000"


def test_the_objective_is_logarithmic_where_it_falls_far():
    for last, log in ((1.0, False), (0.99, True)):
        trace = {"iteration": [1, 2], "objective": [50.0, last]}
        figure, _, up = axes(story(trace=trace), "Objective")
        assert log == ("0" not in up)
    figure, _, up = axes(story(trace={"step": [1, 2], "objective": [9.0, -1.0]}), "Objective")
    assert "including the penalty. Read: it should fall and level off." in inside(figure)
    assert axes(story(trace={"step": [1, 2], "objective": [9.0, 0.0]}), "Objective")
    full = {"step": [1, 2], "objective": [3.0, 2.0], "lower_bound": [0.5, 1.0],
            "eval_objective": [4.0, 3.5]}  # fmt: skip
    told = inside(axes(story(trace=full), "Objective")[0])
    assert "; the lower bound proves how low it can go; on held-out data it should not rise" in told
    assert len(axes(story(trace=full), "Objective")[0].findall(".//polyline")) == 3
    for last, log in ((300, False), (301, True)):
        trace = {"step": [1, last], "objective": [3.0, 2.0]}
        _, across, _ = axes(story(trace=trace), "Objective")
        assert ("1" in across) == log
    _, across, _ = axes(story(trace={"step": [0, 900], "objective": [3.0, 2.0]}), "Objective")
    assert "0" in across


def test_curves_leave_out_missing_values():
    assert story(trace={"step": [1, 2], "lower_bound": [1.0, 2.0]}) is None
    assert story(trace={"step": [1, 2], "objective": [None, None]}) is None
    assert story(trace={"step": [1, 2], "gap": [0.0, -1.0]}) is None
    figure, _, _ = axes(story(trace={"step": [1, 2, 3, 4], "gap": [0.0, 1.0, None, 0.1]}), "Gap")
    assert len(figure.findall(".//circle")) == 2
    for n, dots in ((40, 40), (41, 0)):
        trace = {"sweep": list(range(n)), "objective": [float(n - k) for k in range(n)]}
        figure, _, _ = axes(story(trace=trace), "Objective")
        assert len(figure.findall(".//circle")) == dots
        assert "sweeps over the features" in inside(figure)


def test_progressive_validation_needs_two_values():
    trace = {"lists": [5, 9], "progressive_map": [None, 0.1], "progressive_loss": [0.4, 0.3],
             "progressive_ndcg": [0.3, 0.4]}  # fmt: skip
    section = story(trace=trace)
    assert "Progressive map" not in words(section.body)
    assert "it should fall." in inside(axes(section, "Progressive loss")[0])
    assert "it should rise and level off." in inside(axes(section, "Progressive ndcg")[0])
    assert story(validation={"step": [1], "value": [0.3]}) is None
    told = words(story(validation={"step": [1, 2], "value": [0.3, 0.4]}).body)
    assert "map on held-out queries during training" in told
