"""Which report belongs to which finished result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankine.report.page import Report

__all__ = ["result_report"]


def result_report(subject: Any, *, title: str | None, command: str | None) -> Report | None:
    """The report of a finished search, comparison, protocol or path; None for anything else."""
    return None
