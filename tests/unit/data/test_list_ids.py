"""Lists are recognised by hashes of their ids, exactly for few lists and by a sample for many."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.data.list_ids import N_HASHES, known_share, pack_ids


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("n_lists", [10, N_HASHES - 1, 40_000])
def test_the_share_of_known_lists(n_lists, as_text):
    ids = np.random.default_rng(0).choice(10**9, 2 * n_lists, replace=False)
    if as_text:
        ids = np.array([f"s{number}" for number in ids])
    known, new = ids[:n_lists], ids[n_lists:]
    packed = pack_ids(known)
    assert known_share(packed, known[::-1]) == 1.0
    assert known_share(packed, new) == 0.0
    half = known_share(packed, np.concatenate([known, new]))
    assert half == pytest.approx(0.5, abs=0.1 if n_lists >= N_HASHES else 0.0)


def test_numbers_that_every_file_starts_anew_say_nothing():
    for first in (0, 1):
        assert pack_ids(np.random.default_rng(0).permutation(50) + first) is None
    assert pack_ids(np.array([2, 3, 4])) is not None
    assert pack_ids(np.array([1, 3])) is not None


def test_few_lists_beside_very_many_training_lists_are_not_recognised():
    packed = pack_ids(np.arange(5, 200_000))
    assert known_share(packed, np.array([7])) is None
