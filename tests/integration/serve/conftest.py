"""Servers for the tests: one that all share, and more on demand."""

import pytest

from integration.serve.serve_tools import LocalServer, Server
from reliability.harness.servers import save_models


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Models that the tests of this session do not change."""
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def server(folder):
    running = LocalServer(folder)
    yield running
    assert running.stop()


@pytest.fixture
def start():
    """Start servers that end with the test."""
    running = []

    def begin(*arguments):
        running.append(Server(*arguments))
        return running[-1]

    yield begin
    for one in running:
        one.stop()
