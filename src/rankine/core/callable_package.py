"""Packages whose names are imported on first use, and packages that are also functions.

``rankine.tune(...)``, ``rankine.report(...)``: a function that hides the package of the same name
does not last, since importing any module of the package sets the attribute again. So the package
itself can be called (``docs/adr/0009-tune-is-a-callable-package.md``).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def import_on_use(package: str, public: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: public name -> module that holds it, or that it is."""

    def attribute(wanted: str) -> Any:
        if wanted not in public:
            raise AttributeError(f"module {package!r} has no attribute {wanted!r}")
        module = importlib.import_module(public[wanted])
        value = module if public[wanted] == f"{package}.{wanted}" else getattr(module, wanted)
        setattr(sys.modules[package], wanted, value)  # the next use finds it at once
        return value

    return attribute


def make_callable(package: str, function: str, public: Mapping[str, str]) -> Callable[[str], Any]:
    """Let a package be called: ``function`` is the ``"module:name"`` that a call runs.

    Returns ``import_on_use`` of its public names.
    """
    home, _, name = function.partition(":")

    class CallablePackage(ModuleType):
        """A module that can be called."""

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return getattr(importlib.import_module(home), name)(*arguments, **options)

    sys.modules[package].__class__ = CallablePackage
    return import_on_use(package, public)
