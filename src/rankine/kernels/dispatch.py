"""Generic functions: one loop for many losses, penalties, samplers and row storages.

A *spec* is a NamedTuple that holds parameters as plain data. A *generic function* chooses its
implementation by the type of its first argument, a spec. Inside compiled code the choice is made
at compile time from the argument's type, so the compiled loop can be cached on disk,
implementations can call other generic functions, they may be written in a user's own file, and
the same code runs with ``NUMBA_DISABLE_JIT=1``::

    @generic
    def pair_loss(loss, z):
        "Return value, slope and curvature of the loss at the score difference z."

    class Hinge(NamedTuple):
        margin: float = 1.0

    @pair_loss.implementation(Hinge)
    def _hinge(loss, z): ...

Define specs in an importable module: kernels of specs that are typed into a notebook are compiled
again in every session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from numba.extending import overload

from rankine.kernels.sources import record_implementation

F = TypeVar("F", bound="Callable[..., Any]")


class GenericFunction(Protocol):
    """A function that is dispatched on the type of its first argument."""

    #: Spec type -> implementation, in order of registration. ``object`` is the default.
    implementations: dict[type, Callable[..., Any]]

    def __call__(self, spec: Any, *args: Any) -> Any:
        """Call the implementation of ``type(spec)``."""

    def implementation(self, spec_type: type) -> Callable[[F], F]:
        """Register the decorated function for a spec type, or as the default for ``object``."""


def generic(stub: Callable[..., Any]) -> GenericFunction:
    """Turn a documented stub into a generic function."""
    return _make_generic(stub, inline="never")


def inlined_generic(stub: Callable[..., Any]) -> GenericFunction:
    """Turn a stub into a generic function whose implementations are inlined into their callers.

    A call passes every array of its specs and counts references to each. In a step of a few
    hundred nanoseconds that is a third of the time.
    """
    return _make_generic(stub, inline="always")


def _make_generic(stub: Callable[..., Any], inline: str) -> GenericFunction:
    implementations: dict[type, Callable[..., Any]] = {}

    def dispatch(spec: Any, *args: Any) -> Any:
        function = implementations.get(type(spec), implementations.get(object))
        if function is None:
            raise TypeError(f"{stub.__name__} has no implementation for {type(spec).__name__}")
        return function(spec, *args)

    def resolve(spec: Any, *args: Any) -> Any:
        """Choose the implementation for Numba's type of the spec."""
        # Numba passes types here; that of a NamedTuple has its class.
        spec_type = getattr(spec, "instance_class", type(None))
        return implementations.get(spec_type, implementations.get(object))

    overload(dispatch, strict=False, inline=inline)(resolve)

    def implementation(spec_type: type) -> Callable[[F], F]:
        def register(function: F) -> F:
            implementations[spec_type] = function
            record_implementation(function, spec_type)
            return function

        return register

    dispatch.__name__ = stub.__name__
    dispatch.__qualname__ = stub.__qualname__
    dispatch.__module__ = stub.__module__
    dispatch.__doc__ = stub.__doc__
    function: Any = dispatch
    function.implementation = implementation
    function.implementations = implementations
    return cast("GenericFunction", function)
