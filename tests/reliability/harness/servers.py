"""Run ``rankine serve`` in a forked process, with everything imported and compiled already."""

from __future__ import annotations

import json
import os
import signal

import numpy as np

from integration.serve.serve_tools import Client, log_model, make_model
from rankine import LinearModel, ModelBundle
from rankine.core.specs import ListRange
from rankine.scoring.scorer import compile_kernels
from rankine.serve.limits import Limits
from rankine.serve.server import Settings, serve
from reliability.harness.killable import KillableProcess


class ForkedServer(Client):
    """A server on a free port, in a forked process."""

    def __init__(self, path, *, reload_seconds=1.0, **limits) -> None:
        settings = Settings(path, port=0, reload_seconds=reload_seconds, limits=Limits(**limits))

        def run(report):
            serve(settings, lambda description: report(json.dumps(description).encode()))

        self.process = KillableProcess(run)
        message = self.process.receive(60)
        if not message:
            self.process.kill()
            raise RuntimeError("the server did not start")
        self.port = int(json.loads(message)["url"].rsplit(":", 1)[1])

    def kill(self) -> bool:
        """Send SIGKILL."""
        return self.process.kill()

    def reload(self) -> None:
        """Send SIGHUP, so that the server looks for new files."""
        os.kill(self.process.pid, signal.SIGHUP)

    def stop(self) -> int | None:
        """Send SIGTERM and return the exit status; None if the server did not stop."""
        os.kill(self.process.pid, signal.SIGTERM)
        return self.process.wait(30)


def save_models(path):
    """Save models of every kind to a folder and return it."""
    make_model(0, metric="ndcg@10").save(path / "shop.rankine")
    make_model(1, transforms=[ListRange()]).save(path / "scaled.rankine")
    LinearModel.from_weights(np.arange(1.0, 9.0), base=0).save(path / "plain.rankine")
    topics = {name: np.eye(3)[i] for i, name in enumerate(["earn", "grain", "a/b"])}
    ModelBundle.from_weights(topics, ["x", "y", "z"]).save(path / "topics.rankine")
    log_model().save(path / "log.rankine")
    (path / "notes").mkdir(exist_ok=True)
    return path


def warm() -> None:
    """Compile what serving uses, before servers are forked."""
    compile_kernels()
