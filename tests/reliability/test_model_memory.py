"""Memory depends on the size of a model file and not on the numbers in it; the audit hook works."""

import pickle
import random
import tracemalloc

import numpy as np
import pytest

from rankine.core.errors import ModelError
from rankine.model import LinearModel
from reliability.trials import models

pytestmark = pytest.mark.reliability


def test_memory_follows_the_file_and_not_its_numbers():
    n = 60_000
    model = LinearModel.from_weights(np.ones(n), [f"a feature called {j}" for j in range(n)])
    large = model.to_bytes()
    good = models.good_files()[0]
    hostile = [models.restructure(random.Random(seed), good) for seed in range(200)]
    models.read(large)
    for data in [large, *hostile]:
        tracemalloc.start()
        try:
            models.read(data)
        except ModelError:
            pass
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        # The bytes are in memory already; reading may add the same amount.
        assert peak <= len(data) + 2_000_000


def test_the_audit_hook_would_notice_code_files_and_pickle(tmp_path):
    models.events.clear()
    models.watching[0] = True
    try:
        pickle.loads(pickle.dumps(random.Random))  # noqa: S301 - the hook must see this
        compile("1", "x", "eval")
        (tmp_path / "x").touch()
    finally:
        models.watching[0] = False
    assert {"pickle.find_class", "compile", "open"} <= set(models.events)
    models.events.clear()


def test_loading_a_file_takes_less_than_twice_its_size(tmp_path):
    n = 150_000
    LinearModel.from_weights(np.ones(n), [f"a feature called {j}" for j in range(n)]).save(
        tmp_path / "m"
    )
    LinearModel.load(tmp_path / "m")
    tracemalloc.start()
    model = LinearModel.load(tmp_path / "m")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.nnz == n
    assert peak < 1.5 * (tmp_path / "m").stat().st_size
