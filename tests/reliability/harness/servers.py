"""``rankine serve`` in a forked process: everything is imported and compiled already."""

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
from reliability.harness.victims import Victim


class ForkedServer(Client):
    """A server on a port of its own."""

    def __init__(self, path, *, reload_seconds=1.0, **limits) -> None:
        settings = Settings(path, port=0, reload_seconds=reload_seconds, limits=Limits(**limits))
        self.victim = Victim(
            lambda say: serve(settings, lambda facts: say(json.dumps(facts).encode()))
        )
        told = self.victim.hear(60)
        if not told:
            self.victim.kill()
            raise RuntimeError("the server did not start")
        self.facts = json.loads(told)
        self.port = int(self.facts["url"].rsplit(":", 1)[1])

    def kill(self) -> bool:
        """SIGKILL."""
        return self.victim.kill()

    def hang_up(self) -> None:
        """SIGHUP: look for new files now."""
        os.kill(self.victim.pid, signal.SIGHUP)

    def stop(self) -> int | None:
        """SIGTERM; the exit status, None when it did not stop."""
        os.kill(self.victim.pid, signal.SIGTERM)
        return self.victim.finish(30)


def save_models(path):
    """A folder with models of every kind."""
    make_model(0, metric="ndcg@10").save(path / "shop.rankine")
    make_model(1, transforms=[ListRange()]).save(path / "scaled.rankine")
    LinearModel.from_weights(np.arange(1.0, 9.0), base=0).save(path / "plain.rankine")
    topics = {name: np.eye(3)[i] for i, name in enumerate(["earn", "grain", "a/b"])}
    ModelBundle.from_weights(topics, ["x", "y", "z"]).save(path / "topics.rankine")
    log_model().save(path / "log.rankine")
    (path / "notes").mkdir(exist_ok=True)
    return path


def warm() -> None:
    """Compile what serving uses before servers are forked."""
    compile_kernels()
