"""Export models to engines, databases, ONNX, XGBoost, programming languages and JSON.

A target is one module in this package that registers a function (``rankine.export.registry``).
``rankine export`` and the contract tests find it there.
"""

from rankine.export.registry import Export, ExportOptions, describe_targets, export, targets

__all__ = ["Export", "ExportOptions", "describe_targets", "export", "targets"]
