"""Servers for the tests: one that all share, and more on demand."""

import numpy as np
import pytest

from integration.serve.serve_tools import Server, log_model, make_model
from rankine import LinearModel, ModelBundle
from rankine.core.specs import ListRange


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Models that the tests of this session do not change."""
    path = tmp_path_factory.mktemp("models")
    make_model(0, metric="ndcg@10").save(path / "shop.rankine")
    make_model(1, transforms=[ListRange()]).save(path / "scaled.rankine")
    LinearModel.from_weights(np.arange(1.0, 9.0), base=0).save(path / "plain.rankine")
    topics = {name: np.eye(3)[i] for i, name in enumerate(["earn", "grain", "a/b"])}
    ModelBundle.from_weights(topics, ["x", "y", "z"]).save(path / "topics.rankine")
    log_model().save(path / "log.rankine")
    (path / "notes").mkdir()
    return path


@pytest.fixture(scope="session")
def server(folder):
    running = Server(str(folder))
    running.folder = folder
    yield running
    running.stop()
    assert running.process.returncode == 0


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
