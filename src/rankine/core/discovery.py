"""Import all modules of a package, so that each can register what it defines."""

from __future__ import annotations

import importlib
import pkgutil


def import_modules(package: str) -> None:
    """Import every module directly inside a package.

    Metrics and exporters register themselves when their module is imported. A new one is therefore
    a single file in its package: no list names it.
    """
    path = importlib.import_module(package).__path__
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
