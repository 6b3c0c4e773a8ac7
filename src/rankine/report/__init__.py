"""Reports: ``rankine.report(model, data)`` makes one self-contained HTML page.

The package is also the function: calling it runs ``rankine.report.run.report``
(``docs/adr/0009-tune-is-a-callable-package.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankine.core.callable_package import make_callable

if TYPE_CHECKING:
    from rankine.report.page import Report

__all__ = ["Report"]

__getattr__ = make_callable(
    __name__, "rankine.report.run:report", {"Report": "rankine.report.page"}
)
