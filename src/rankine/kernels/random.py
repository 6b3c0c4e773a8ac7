"""Counter-based random numbers: draw ``counter`` of stream ``seed`` is a pure function of both.

A draw therefore does not depend on threads, on blocks or on where a run was resumed. The function
is SplitMix64's finaliser (Steele, Lea, Flood 2014) of ``seed + counter * golden``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.kernels.compile import jit

# Streams of a seed, for ``stream_seed(seed, NAME, ...)``. Numbers repeat only between algorithms
# that never use the same seed in one run. Changing a number changes every model that was trained
# with its stream.

#: Order of the lists of a fit in memory, and (with the block's number) of a partition.
LIST_ORDER = 1
#: Draws of a list loss that samples its pairs.
LIST_DRAWS = 2
#: Order of the queries of a streamed block; its position follows.
STREAMED_ORDER = 3
#: First direction of the power iteration that measures a step length.
STEP_START = 1
#: Order of the queries in a pass of stochastic least squares; its number follows.
QUERY_ORDER = 2
#: Which way round a drawn pair is written.
PAIR_SIGNS = 1
#: Runs on partitions: the partition's number is added.
PARTITION = 1000
#: Splits of queries ("SPLI").
SPLIT = 0x53504C49
#: Resampled queries of a bootstrap interval.
BOOTSTRAP = 1
#: Signs of a randomisation test.
SIGN_FLIPS = 2

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_MASK = (1 << 64) - 1
_UNIT = 1.0 / 9007199254740992.0  # 2^-53


def _mix(state: int) -> int:
    """Apply the finaliser to a Python integer."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
    return state ^ (state >> 31)


@jit
def _random_bits(seed: Any, counter: Any) -> Any:
    z = np.uint64(seed) + np.uint64(counter) * _GOLDEN
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


def random_bits(seed: Any, counter: Any) -> Any:
    """Return 64 random bits: draw ``counter`` of stream ``seed``."""
    return np.uint64(_mix(int(seed) + int(counter) * 0x9E3779B97F4A7C15 & _MASK))


@overload(random_bits)  # type: ignore[untyped-decorator]
def _random_bits_compiled(seed: Any, counter: Any) -> Any:
    """Compile on unsigned words, whose overflow wraps silently; NumPy's scalars would warn."""

    def compiled(seed: Any, counter: Any) -> Any:
        return _random_bits(seed, counter)

    return compiled


@jit
def random_unit(seed: Any, counter: Any) -> Any:
    """Return a uniform number in [0, 1)."""
    return np.float64(random_bits(seed, counter) >> _S11) * _UNIT


@jit
def random_below(seed: Any, counter: Any, n: Any) -> Any:
    """Return a uniform integer in [0, n); the bias is below n / 2^53."""
    return np.int64(random_unit(seed, counter) * n)


@jit
def permutation(seed: Any, n: int) -> NDArray[np.int64]:
    """Return a uniformly random order of range(n) (Fisher-Yates)."""
    order = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = random_below(seed, i, i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def stream_seed(seed: int, *path: int) -> np.uint64:
    """Derive the seed of a stream, so that different uses of a seed share no draws."""
    # Each part of the path is mixed in before the next, so (1, 2) and (2, 1) differ.
    state = seed & _MASK
    for part in (0x52414E4B, *path):  # "RANK"
        state = _mix((state ^ (part & _MASK)) + 0x9E3779B97F4A7C15 & _MASK)
    return np.uint64(state)


def numpy_generator(random_state: int, *path: int) -> np.random.Generator:
    """Return NumPy's generator of a seed and a path; NumPy itself refuses negative seeds."""
    if not isinstance(random_state, (int, np.integer)):
        raise ParameterError(
            f"{random_state!r} is not a seed", parameter="random_state", fix="Pass an int"
        )
    return np.random.default_rng([int(random_state) & _MASK, *path])


def resolve_seed(random_state: Any) -> int:
    """Return a 64-bit seed from an int, a NumPy generator, or None for a new random one."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, (int, np.integer)):
        return int(stream_seed(int(random_state)))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**31 - 1))
    raise ParameterError(
        f"{random_state!r} is not a seed", parameter="random_state", fix="Pass an int or None"
    )
