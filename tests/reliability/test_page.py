"""docs/reliability.md shows the figures of the last runs."""

import json

from reliability import page
from reliability.harness.plan import KINDS


def test_the_page_is_up_to_date():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run python -m reliability.page"


def test_the_figures_have_no_fault_and_meet_their_targets():
    run = json.loads((page.RESULTS / "standard.json").read_text(encoding="utf-8"))
    assert not any(any(one["faults"].values()) for one in run["kinds"].values())
    groups = {name: one["cases"] for name, one in run["groups"].items()}
    wanted = {"inputs": 200_000, "models": 300_000, "kills": 150, "workers": 3, "determinism": 60}
    assert all(groups[name] >= count for name, count in wanted.items())
    assert groups["seeded"] >= 20
    assert set(run["kinds"]) == set(KINDS)
