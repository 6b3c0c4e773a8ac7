"""Services with a state of history features."""

from __future__ import annotations

import pytest

from integration.serve.test_history import (
    save_history_model,
)
from unit.serve.state_server import StateServer


@pytest.fixture
def start(tmp_path):
    """Start services on one folder; each ends the previous one."""
    running = []
    (tmp_path / "state").mkdir()

    def begin(history=None, **options):
        if running:
            running[-1].close()
        if history is not None:
            save_history_model(tmp_path, history)
        running.append(StateServer(tmp_path / "shop.rankine", tmp_path / "state", **options))
        return running[-1]

    yield begin
    running[-1].close()
