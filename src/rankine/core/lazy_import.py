"""Public names of a package that are imported on first use (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_attributes(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names are imported on first use.

    Parameters
    ----------
    package
        ``__name__`` of the package.
    modules
        Public name -> module that defines it. A public submodule maps to its own full name.
    """

    def get_attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(modules[name])
        if modules[name] == f"{package}.{name}":
            value: Any = module
        else:
            value = getattr(module, name)
        # Python calls __getattr__ only for missing names, so the next access costs nothing.
        setattr(sys.modules[package], name, value)
        return value

    return get_attribute
