"""Find plug-ins: the modules of a package that register something when they are imported."""

from __future__ import annotations

import importlib
import pkgutil


def import_modules(package: str) -> list[str]:
    """Import every public module of a package and return their names in alphabetical order.

    A loss, metric or exporter is one file in the folder of its package, and registers itself when
    it is imported. Call this once, in the ``__init__`` of the package or where the registry is
    first read, instead of listing the files. Modules whose names begin with an underscore are
    skipped.
    """
    folder = importlib.import_module(package).__path__
    names = sorted(
        module.name for module in pkgutil.iter_modules(folder) if not module.name.startswith("_")
    )
    for name in names:
        importlib.import_module(f"{package}.{name}")
    return names
