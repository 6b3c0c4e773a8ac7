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
    """Rankers that leave columns as they are unless told otherwise, for objectives by hand."""
    for name in RANKERS:
        monkeypatch.setitem(ranker_class(name).__init__.__kwdefaults__, "scale", "none")


@pytest.fixture(scope="session")
def real_data():
    """The folder of real data sets, or a skip that says how to provide it."""
    folder = os.environ.get("RANKINE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("RANKINE_DATA does not name a folder of real data sets")
    return Path(folder)
