"""Shared fixtures; the slow oracles of ``tests/reference`` are importable by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rankine.rankers.registry import RANKERS, ranker_class

sys.path.insert(0, str(Path(__file__).parent / "reference"))


@pytest.fixture
def raw_units(monkeypatch):
    """Rankers that leave columns as they are unless told otherwise, for objectives by hand.

    ElasticRanker makes one pass with one step size.
    """
    for name in RANKERS:
        known = ranker_class(name).__init__.__kwdefaults__
        plain = {"scale": "none"}
        if name == "elastic":
            plain |= {"adaptive": False, "l1": 1e-3, "l2": 1e-3, "n_passes": 1}
        for parameter, value in plain.items():
            monkeypatch.setitem(known, parameter, value)


@pytest.fixture(scope="session")
def real_data():
    """The folder of real data sets, or a skip that says how to provide it."""
    folder = os.environ.get("RANKINE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("RANKINE_DATA does not name a folder of real data sets")
    return Path(folder)
