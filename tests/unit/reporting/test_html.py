"""Names from outside can neither run as code nor reorder the page."""

from __future__ import annotations

import rankine
from unit.reporting.report_cases import (
    HOSTILE,
    assert_sound,
    hostile,
)


def test_hostile_names_are_inert_and_short():
    model, data = hostile()
    report = rankine.report(model, data, title=HOSTILE[0], command=HOSTILE[1])
    assert_sound(report)
    assert "\u202e" not in report.html
    assert "\x1b" not in report.html
    assert "<script" not in report.html
    assert "x" * 500 not in report.html
    assert "\u05e9\u05dc\u05d5\u05dd" in report.html
