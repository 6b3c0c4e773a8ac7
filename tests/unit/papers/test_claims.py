"""A verdict follows from checks and sizes alone."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from papers import claims
from papers.claims import Check, Claim, Size

YES, NO = Check("one is at most two", "1", held=True), Check("two is at most one", "2", held=False)
ENOUGH, FEWER = Size("rows", 10, 10), Size("rows", 9, 10)


@pytest.mark.parametrize(
    ("checks", "sizes", "verdict"),
    [
        ((), (ENOUGH,), "cannot be tested here"),
        ((NO, NO), (ENOUGH,), "not"),
        ((NO,), (FEWER,), "not"),
        ((YES, NO), (ENOUGH,), "partly"),
        ((YES, YES), (ENOUGH, FEWER), "partly"),
        ((YES, YES), (ENOUGH, ENOUGH), "reproduced"),
        ((YES,), (), "reproduced"),
    ],
)
def test_the_rule(checks, sizes, verdict):
    assert Claim("", "", sizes=sizes, checks=checks).kind == verdict


def test_a_verdict_names_data_that_are_not_the_papers_own():
    assert Claim("", "", checks=(YES,)).verdict == "**reproduced**, on other data"
    assert Claim("", "", checks=(YES,), own=True).verdict == "**reproduced**"
    assert Claim("", "", checks=(NO,)).verdict == "**not**"


def test_checks_hold_on_their_bar_and_not_beyond():
    assert claims.at_most("x", 1.0, 1.0).held
    assert not claims.at_most("x", 1.01, 1.0).held
    assert claims.at_least("x", 1.0, 1.0).held
    assert not claims.at_least("x", 0.99, 1.0).held
    assert claims.alike("x", (-0.01, 0.01)).held
    assert not claims.alike("x", (-0.011, 0.0)).held
    assert not claims.alike("x", (0.0, 0.011)).held
    assert claims.ahead("x", (0.001, 0.1)).held
    assert not claims.ahead("x", (0.0, 0.1)).held


def test_a_miss_is_said_first():
    found = [Claim("it holds", "1", checks=(YES,)), Claim("it fails", "2", checks=(NO,))]
    assert claims.counted(found) == (
        "**Not reproduced: “it fails”.** Of 2 claims: 1 reproduced, 1 not."
    )
    long = Claim("it fails in every single one of, the very many cases", "2", checks=(NO,))
    assert claims.counted([long]).startswith(
        "**Not reproduced: “it fails in every single one of ...”"
    )


def test_a_smaller_size_is_listed_with_the_checks():
    shown = claims.checks_table([Claim("it holds", "1", sizes=(FEWER,), checks=(YES,))])
    assert "| no fewer rows than the paper | 9 rows (paper 10) | **no** |" in shown


@pytest.mark.parametrize("wrong", [{}, {"checks": (YES,), "why": "no data"}])
def test_a_claim_has_checks_or_says_why_not(wrong, monkeypatch):
    module = SimpleNamespace(claims=lambda: [Claim("it holds", "1", **wrong)], __spec__=object())
    monkeypatch.setitem(sys.modules, "papers.tas.claims", module)
    with pytest.raises(ValueError, match="checks or why"):
        claims.of("tas")
