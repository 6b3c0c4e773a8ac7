"""Which report belongs to which finished result."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rankine.evaluation.comparison import Comparison
from rankine.evaluation.letor import LetorResult
from rankine.rankers.path import RegularizationPath

if TYPE_CHECKING:
    from rankine.report.page import Report

__all__ = ["result_report"]


def result_report(subject: Any, *, title: str | None, command: str | None) -> Report | None:
    """The report of a finished search, comparison, protocol or path; None for anything else."""
    if isinstance(subject, Comparison):
        subject = [subject]
    if isinstance(subject, list) and subject and all(isinstance(c, Comparison) for c in subject):
        from rankine.report.compare_report import compare_report

        return compare_report(subject, title=title, command=command)
    if isinstance(subject, LetorResult):
        from rankine.report.letor_report import letor_report

        return letor_report(subject, title=title, command=command)
    if isinstance(subject, RegularizationPath):
        from rankine.report.path_report import path_report

        return path_report(subject, title=title, command=command)
    # Tuning needs its own extra; a result of it shows that its module is there already.
    tuning = sys.modules.get("rankine.tune.result")
    if tuning is not None and isinstance(subject, tuning.TuningResult):
        from rankine.report.tune_report import tune_report

        return tune_report(subject, title=title, command=command)
    return None
