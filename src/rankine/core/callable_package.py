"""Packages that are also functions: ``rankine.tune(...)``, ``rankine.report(...)``.

A function that hides the package of the same name does not last: importing any module of the
package sets the attribute again. So the package itself can be called
(``docs/adr/0009-tune-is-a-callable-package.md``).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def make_callable(package: str, function: str, public: Mapping[str, str]) -> Callable[[str], Any]:
    """Let a package be called, and give it names that are imported on first use.

    Parameters
    ----------
    package
        Its ``__name__``.
    function
        ``"module:name"`` of what a call runs.
    public
        Public name -> module that holds it.

    Returns
    -------
    callable
        The package's ``__getattr__``.
    """
    home, _, name = function.partition(":")

    class CallablePackage(ModuleType):
        """A module that can be called."""

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return getattr(importlib.import_module(home), name)(*arguments, **options)

    def attribute(wanted: str) -> Any:
        if wanted not in public:
            raise AttributeError(f"module {package!r} has no attribute {wanted!r}")
        return getattr(importlib.import_module(public[wanted]), wanted)

    sys.modules[package].__class__ = CallablePackage
    return attribute
