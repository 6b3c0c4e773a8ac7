"""How a public name leaves: announced, still working, then gone.

A name that is to go warns in one minor release at least and is removed in the version that the
warning names. A test reads every announcement: once the package has reached that version, the name
must be gone.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Announcement(NamedTuple):
    """A name that warns since one version and is gone in another."""

    name: str
    since: str
    gone_in: str
    instead: str

    @property
    def text(self) -> str:
        """What the caller reads."""
        return (
            f"{self.name} is deprecated since rankine {self.since} and will be gone in "
            f"{self.gone_in}. {self.instead}"
        )


#: Every announcement of the package, in order of definition.
ANNOUNCED: list[Announcement] = []


def deprecated(*, since: str, gone_in: str, instead: str) -> Callable[[F], F]:
    """Let a function warn each of its callers with a ``FutureWarning``.

    Parameters
    ----------
    since, gone_in
        First version that warns, and the version without the function.
    instead
        A whole sentence: what to call instead.

    Examples
    --------
    >>> @deprecated(since="0.2", gone_in="0.4", instead="Call rankine.load.")
    ... def read(path): return path
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = read("file")
    >>> "gone in 0.4. Call rankine.load." in str(caught[0].message)
    True
    """

    def mark(function: F) -> F:
        told = Announcement(function.__qualname__, since, gone_in, instead)
        if function.__module__.partition(".")[0] == "rankine":
            ANNOUNCED.append(told)

        @functools.wraps(function)
        def warned(*args: Any, **named: Any) -> Any:
            warnings.warn(told.text, FutureWarning, stacklevel=2)
            return function(*args, **named)

        return cast("F", warned)

    return mark
