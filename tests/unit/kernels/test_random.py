"""Draws are those of SplitMix64, compiled and not; seeds come from several sources."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from rankine.core.errors import ParameterError
from rankine.kernels.compile import jit
from rankine.kernels.random import (
    numpy_generator,
    permutation,
    random_below,
    random_bits,
    random_unit,
    resolve_seed,
    stream_seed,
)

pytestmark = pytest.mark.kernels

#: The first numbers of SplitMix64 from the seed 0, as its authors publish them.
PUBLISHED = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC)


@jit
def compiled_bits(seed, start, out):
    for k in range(out.shape[0]):
        out[k] = random_bits(seed, start + k)


def test_bits_are_the_published_ones_compiled_and_not():
    assert tuple(int(random_bits(0, k)) for k in range(1, 5)) == PUBLISHED
    for seed in (0, 1, 2**63 + 12345, 2**64 - 1):
        out = np.empty(200, dtype=np.uint64)
        compiled_bits(np.uint64(seed), 5, out)
        assert out.tolist() == [int(random_bits(seed, 5 + k)) for k in range(200)]


def test_units_and_integers_come_from_the_high_bits():
    for k in range(200):
        unit = (int(random_bits(9, k)) >> 11) / 2**53
        assert random_unit(np.uint64(9), k) == unit
        assert random_below(np.uint64(9), k, 7) == int(unit * 7)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_all_orders_are_equally_likely(n):
    draws = 2400
    seen = [tuple(permutation(np.uint64(seed), n).tolist()) for seed in range(draws)]
    counts = {order: seen.count(order) for order in set(seen)}
    assert set(counts) == set(permutations(range(n)))
    expected = draws / len(counts)
    assert max(abs(count - expected) for count in counts.values()) < 4.5 * np.sqrt(expected)


def test_streams_of_a_seed_differ_by_every_part_of_their_path():
    paths = [(), (0,), (1,), (0, 0), (1, 0), (0, 1), (-1,)]
    seeds = {int(stream_seed(seed, *path)) for seed in (0, 1, -1, 2**64 + 2) for path in paths}
    assert len(seeds) == 4 * len(paths)
    assert stream_seed(3, 1) == stream_seed(3 + 2**64, 1 + 2**64)
    # The finaliser of what has been reached, mixed with the next part of the path.
    first = int(random_bits(7 ^ 0x52414E4B, 1))
    assert int(stream_seed(7)) == first
    assert int(stream_seed(7, 2)) == int(random_bits(first ^ 2, 1))


def test_a_seed_comes_from_an_int_a_generator_or_the_system():
    assert resolve_seed(5) == resolve_seed(np.int32(5)) == int(stream_seed(5))
    assert resolve_seed(None) != resolve_seed(None)
    for make_generator in (np.random.default_rng, np.random.RandomState):
        first_generator, second_generator = make_generator(3), make_generator(3)
        first = resolve_seed(first_generator)
        assert first == resolve_seed(second_generator)
        assert first != resolve_seed(first_generator)
    assert resolve_seed(np.random.default_rng(3)) == np.random.default_rng(3).integers(0, 2**63)
    old = np.random.RandomState(3).randint(0, 2**31 - 1)
    assert resolve_seed(np.random.RandomState(3)) == old
    assert 0 <= resolve_seed(None) < 2**64
    with pytest.raises(ParameterError) as caught:
        resolve_seed("seven")
    assert caught.value.parameter == "random_state"


def test_generators_of_numpy_take_every_seed():
    first = [numpy_generator(seed).integers(2**60) for seed in (7, -7, 2**64 - 7, np.int32(-7))]
    assert first[0] == np.random.default_rng(7).integers(2**60)
    assert first[0] != first[1] == first[2] == first[3]
    paths = [numpy_generator(7, *path).integers(2**60) for path in ((), (0,), (1,), (1, 2))]
    assert len(set(paths)) >= 3
    assert paths[2] == np.random.default_rng([7, 1]).integers(2**60)
    with pytest.raises(ParameterError) as caught:
        numpy_generator(None)
    assert caught.value.parameter == "random_state"
