"""Models in the languages of the engines that people run: one file per language.

A target is one module of this folder that registers a function; ``rankine export`` and the
contract tests find it there.
"""

from rankine.export.registry import Export, ExportOptions, export, targets

__all__ = ["Export", "ExportOptions", "export", "targets"]
