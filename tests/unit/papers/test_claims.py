"""A verdict follows from checks and sizes alone."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from papers import claims
from papers.claims import Check, Claim, Size

YES, NO = Check("one is at most two", "1", held=True), Check("two is at most one", "2", held=False)
OPEN = Check("nobody knows", "[-1, 1]", held=None)
ENOUGH, FEWER = Size("rows", 10, 10), Size("rows", 9, 10)


@pytest.mark.parametrize(
    ("checks", "sizes", "verdict"),
    [
        ((), (ENOUGH,), "cannot be tested here"),
        ((NO, NO), (ENOUGH,), "not"),
        ((NO,), (FEWER,), "not"),
        ((YES, NO), (ENOUGH,), "partly"),
        ((OPEN,), (), "undecided"),
        ((OPEN, NO), (), "not"),
        ((YES, OPEN), (), "partly"),
        ((YES, YES), (ENOUGH, FEWER), "partly"),
        ((YES, YES), (ENOUGH, ENOUGH), "reproduced"),
        ((YES,), (), "reproduced"),
    ],
)
def test_the_rule(checks, sizes, verdict):
    assert Claim("", "", "", sizes=sizes, checks=checks).kind == verdict


def test_a_verdict_names_data_that_are_not_the_papers_own():
    assert Claim("", "", "", checks=(YES,)).verdict == "**reproduced**, on other data"
    assert Claim("", "", "", checks=(YES,), own=True).verdict == "**reproduced**"
    assert Claim("", "", "", checks=(NO,)).verdict == "**not**"


def test_checks_hold_on_their_bar_and_not_beyond():
    assert claims.at_most("x", 1.0, 1.0).held
    assert not claims.at_most("x", 1.01, 1.0).held
    assert claims.at_least("x", 1.0, 1.0).held
    assert not claims.at_least("x", 0.99, 1.0).held


@pytest.mark.parametrize(
    ("check", "held"),
    [
        (claims.alike("x", (-0.01, 0.01)), True),
        (claims.alike("x", (-0.011, 0.0)), None),
        (claims.alike("x", (0.011, 0.02)), False),
        (claims.alike("x", (-0.002, 0.002), claims.margin_of(0.05)), True),
        (claims.alike("x", (-0.003, 0.002), claims.margin_of(0.05)), None),
        (claims.ahead("x", (0.001, 0.1)), True),
        (claims.ahead("x", (-0.1, 0.1)), None),
        (claims.ahead("x", (-0.1, -0.01)), False),
        (claims.no_gain("x", (-0.1, 0.01)), True),
        (claims.no_gain("x", (-0.1, 0.02)), None),
        (claims.no_gain("x", (0.001, 0.009)), False),
        (claims.no_worse("x", (-0.03, 0.1), -0.035), True),
        (claims.no_worse("x", (-0.04, 0.1), -0.035), None),
        (claims.no_worse("x", (-0.05, -0.04), -0.035), False),
    ],
)
def test_an_interval_decides_or_leaves_it_open(check, held):
    assert check.held is held


def test_an_interval_over_logs_is_students():
    low, high = claims.interval_over([1.0, 2.0, 3.0])
    assert (low + high) / 2 == pytest.approx(2.0)
    assert high - 2.0 == pytest.approx(4.30265 / 3**0.5, rel=1e-4)


def test_a_miss_is_said_first():
    found = [
        Claim("It holds.", "it holds", "1", checks=(YES,)),
        Claim("It fails.", "it fails", "2", checks=(NO,)),
    ]
    said = claims.counted(found)
    assert said == "**Not reproduced:** It fails. Of 2 claims: 1 reproduced, 1 not."


def test_the_matrix_marks_the_verdict_of_every_claim():
    found = [
        Claim("It holds.", "it holds", "1", checks=(YES,)),
        Claim("It fails.", "it fails", "2", checks=(NO,), own=True),
    ]
    rows = claims.matrix(found).splitlines()
    assert rows[2].split("|")[1:3] == [" It holds. ", " ○ "]
    assert rows[3].index("●") > rows[3].index("It fails.")


def test_a_smaller_size_is_listed_with_the_checks():
    shown = claims.checks_table(Claim("It holds.", "it holds", "1", sizes=(FEWER,), checks=(YES,)))
    assert "| no fewer rows than the paper | 9 rows (paper 10) | paper | **no** |" in shown


@pytest.mark.parametrize("wrong", [{}, {"checks": (YES,), "why": "no data"}])
def test_a_claim_has_checks_or_says_why_not(wrong, monkeypatch):
    module = SimpleNamespace(
        claims=lambda: [Claim("It holds.", "it holds", "1", **wrong)], __spec__=object()
    )
    monkeypatch.setitem(sys.modules, "papers.tas.claims", module)
    with pytest.raises(ValueError, match="checks or why"):
        claims.of("tas")
