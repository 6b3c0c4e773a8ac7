"""The results page follows from the stored results, and nothing is missing from it."""

from __future__ import annotations

import json

import pytest
from papers import claims, page, runs
from papers.contents import CONTENTS


def test_every_result_is_on_the_page_once():
    listed = page.listed()
    assert sorted(listed) == sorted(set(listed))
    assert sorted(listed) == sorted(runs.names())


def test_the_page_and_its_figures_are_up_to_date():
    assert page.stale() == []


def test_a_missing_result_is_an_error_that_names_the_command(tmp_path):
    with pytest.raises(runs.MissingResultError, match=r"python -m papers sculley\.none"):
        runs.read("sculley.none", tmp_path)


@pytest.mark.parametrize("hole", [None, float("nan"), float("inf")])
def test_a_hole_in_a_result_is_refused_with_its_place(hole, tmp_path, monkeypatch):
    monkeypatch.setenv("RANKINE_BENCH_RESULTS", str(tmp_path))
    results = {"seeds": [0], "repetitions": 1, "table": [{"time": 1.0}, {"time": hole}]}
    with pytest.raises(runs.MissingResultError, match=r"x\.table\[1\]\.time"):
        runs.store("x", results)
    assert not (tmp_path / "x.json").exists()


def test_a_result_states_its_seeds_and_repetitions():
    with pytest.raises(runs.MissingResultError, match="seeds"):
        runs.store("x", {"repetitions": 1})


def test_a_stored_result_is_read_back_rounded(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKINE_BENCH_RESULTS", str(tmp_path))
    path = runs.store("x", {"seeds": [0], "repetitions": 2, "value": 0.123456789})
    assert json.loads(path.read_text())["value"] == 0.123457
    assert runs.read("x", tmp_path)["repetitions"] == 2


def test_a_changed_result_changes_the_digest_of_its_figure():
    assert runs.digest({"a": 1}) != runs.digest({"a": 2})
    assert runs.digest({"a": 1, "b": 2}) == runs.digest({"b": 2, "a": 1})


def test_the_page_of_verdicts_can_be_read_at_one_sitting():
    words = [word for word in page.verdicts().split() if any(map(str.isalnum, word))]
    assert len(words) <= 3000


def test_every_claim_is_in_the_matrix_and_on_its_page():
    verdicts = page.verdicts()
    for paper in CONTENTS:
        text = page.text(paper)
        for claim in claims.of(paper.name):
            assert f"| {claim.says} |" in verdicts
            assert f"### {claim.says[:-1]}\n\n> {claim.quote} ({claim.section})" in text


def test_a_claim_is_one_sentence_of_ours():
    for paper in CONTENTS:
        for claim in claims.of(paper.name):
            assert claim.says.endswith(".")
            assert claim.says.rstrip(".") not in claim.quote
