"""Reports: ``rankine.report(model, data)`` makes one self-contained HTML page."""

from rankine.reporting.page import Report

__all__ = ["Report"]
