"""One decorator for every compiled function, and the time that a process spends compiling.

``jit`` is ``numba.njit`` with rankine's options and a cache whose keys notice changes in called
files (see ``rankine.kernels.cache``).

With ``RANKINE_BOUNDS_CHECK=1`` every index is checked and IndexError raised where it is out of
bounds. This is slower and meant for tests; such kernels have separate cache keys.
"""

from __future__ import annotations

import gc
import os
import re
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numba
from numba.core import event

from rankine.core.errors import IncompatibleVersionError
from rankine.kernels.cache import KernelCache, compile_for_baseline

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

#: Fast-math flags for sums, which may then be re-ordered inside one kernel. LLVM may also remove a
#: finiteness test of such a sum, so test finiteness outside the kernel that carries these flags.
REDUCE: frozenset[str] = frozenset({"reassoc", "contract", "nsz"})

#: Versions of Numba that the tests run with: from the first up to, but not including, the second.
#: pyproject.toml has the same bounds.
NUMBA_VERSIONS = (0, 62), (0, 69)


def _check_numba_version(version: str) -> None:
    """Raise if Numba is a version that rankine was not tested with."""
    match = re.match(r"(\d+)\.(\d+)", version)
    oldest, first_unsupported = NUMBA_VERSIONS
    if match is None or not oldest <= (int(match[1]), int(match[2])) < first_unsupported:
        bounds = f"numba>={'.'.join(map(str, oldest))},<{'.'.join(map(str, first_unsupported))}"
        raise IncompatibleVersionError(
            f"Numba {version} is installed, and rankine needs {bounds}",
            fix=f'Run pip install "{bounds}"',
        )


_check_numba_version(numba.__version__)
compile_for_baseline()
if os.environ.get("RANKINE_BOUNDS_CHECK") == "1":
    numba.config.BOUNDSCHECK = 1


class CompileClock(event.Listener):
    """Measures how long this process has compiled.

    Attributes
    ----------
    seconds
        Total time of compiling.
    begin, end
        Called when compiling starts and ends, or None. Progress bars use them.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.begin: Callable[[], None] | None = None
        self.end: Callable[[], None] | None = None
        self._depth = 0
        self._started_at = 0.0
        self._gc_was_enabled = False

    def mark(self) -> tuple[float, float]:
        """Return the present time, to be passed to ``since``."""
        return time.perf_counter(), self.seconds

    def since(self, mark: tuple[float, float]) -> dict[str, float]:
        """Return the seconds since ``mark`` with and without compiling."""
        compiled = self.seconds - mark[1]
        elapsed = time.perf_counter() - mark[0] - compiled
        return {"seconds": round(elapsed, 3), "compile_seconds": round(compiled, 3)}

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        """Start the clock, unless this function is compiled as part of another one."""
        self._depth += 1
        if self._depth > 1:
            return
        self._started_at = time.perf_counter()
        # Numba creates millions of objects that stay alive; collecting garbage would only traverse
        # them.
        self._gc_was_enabled = gc.isenabled()
        gc.disable()
        if self.begin is not None:
            self.begin()

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        """Stop the clock when the outermost function is compiled."""
        self._depth -= 1
        if self._depth > 0:
            return
        self.seconds += time.perf_counter() - self._started_at
        if self._gc_was_enabled:
            gc.enable()
        if self.end is not None:
            self.end()


#: The clock of this process.
CLOCK = CompileClock()
event.register("numba:compile", CLOCK)


@overload
def jit(function: F) -> F: ...
@overload
def jit(*, fastmath: frozenset[str] | bool = False, inline: bool = False) -> Callable[[F], F]: ...
def jit(
    function: F | None = None, *, fastmath: frozenset[str] | bool = False, inline: bool = False
) -> F | Callable[[F], F]:
    """Compile a function on its first call: no Python objects, no GIL, cached on disk.

    Functions that are in no file, such as those typed into a notebook, are not cached.

    Parameters
    ----------
    fastmath
        Pass ``REDUCE`` for inner products; anything wider removes finiteness tests.
    inline
        Inline the function into compiled callers before types are inferred. Only tiny helpers of
        hot loops need this.
    """
    if function is None:
        return partial(jit, fastmath=fastmath, inline=inline)
    if numba.config.DISABLE_JIT:
        return function
    kernel = numba.njit(
        nogil=True,
        error_model="numpy",
        fastmath=set(fastmath) if isinstance(fastmath, frozenset) else fastmath,
        inline="always" if inline else "never",
        boundscheck=None,
        no_cfunc_wrapper=True,
    )(function)
    if Path(function.__code__.co_filename).is_file():
        kernel._cache = KernelCache(function)  # noqa: SLF001 - where njit(cache=True) puts its own
    return cast("F", kernel)
