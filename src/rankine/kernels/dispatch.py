"""Questions and answers: how a loop written once meets many losses, penalties, samplers, storages.

A *spec* is a NamedTuple (plain data). A *question* is a function whose first argument is a spec;
each spec type registers its *answer*. Inside compiled code the answer is chosen at compile time
from the spec's type, so the result is cached on disk, nests, can live in a user's own file, and
runs unchanged with the JIT off::

    @question
    def pair_loss(loss, z): "value, slope, curvature of the loss at the score difference z"

    class Hinge(NamedTuple):
        margin: float = 1.0

    @pair_loss.answer(Hinge)
    def _hinge(loss, z): ...

Specs must be defined in an importable module (not ``__main__``) for the disk cache to work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from numba.extending import overload

from rankine.kernels.compile import Inner, note_answer

F = TypeVar("F", bound="Callable[..., Any]")


class Question(Protocol):
    """A function whose answer depends on the type of its first argument."""

    #: Spec types that answer, in order of registration (contract tests walk them).
    answers: dict[type, Callable[..., Any]]

    def __call__(self, spec: Any, *args: Any) -> Any:
        """Ask."""

    def answer(self, spec_type: type) -> Callable[[F], F]:
        """Register the decorated function as the answer of a spec type; ``object``: of the rest."""


def question(stub: Callable[..., Any]) -> Question:
    """Turn a documented stub into a question that specs can answer."""
    return _make(stub, "never")


def inlined_question(stub: Callable[..., Any]) -> Question:
    """Like ``question``, for one small step of a hot loop: answers are copied into the loop.

    A call passes every array of its specs and counts references to each; in a step of a few
    hundred nanoseconds that is a third of the time.
    """
    return _make(stub, "always")


def _make(stub: Callable[..., Any], inline: str) -> Question:
    answers: dict[type, Callable[..., Any]] = {}

    def ask(spec: Any, *args: Any) -> Any:
        chosen = answers.get(type(spec), answers.get(object))
        if chosen is None:
            raise TypeError(f"{type(spec).__name__} has no answer to {stub.__name__}")
        return chosen(spec, *args)

    def choose(spec: Any, *args: Any) -> Any:
        return answers.get(getattr(spec, "instance_class", type(None)), answers.get(object))

    overload(ask, strict=False, inline=inline, jit_options={"pipeline_class": Inner})(choose)

    def answer(spec_type: type) -> Callable[[F], F]:
        def register(function: F) -> F:
            answers[spec_type] = function
            note_answer(function, spec_type)
            return function

        return register

    ask.__name__ = stub.__name__
    ask.__qualname__ = stub.__qualname__
    ask.__module__ = stub.__module__
    ask.__doc__ = stub.__doc__
    asked: Any = ask
    asked.answer = answer
    asked.answers = answers
    return cast("Question", asked)
