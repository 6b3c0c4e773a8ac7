"""kill -9 of a server under load, and of the process that saves its model, at the same moment.

Every reply before the kill is, to the bit, that of the model it names; the server starts again at
once and serves the old model or the new one, whole. Each case is one kill.
"""

from __future__ import annotations

import time

from integration.serve.serve_tools import make_model, read_reply
from reliability.harness.killable import KillableProcess
from reliability.harness.outcome import Job, Outcome
from reliability.harness.servers import ForkedServer, warm
from reliability.trials.reloads import REQUEST, expected_replies, wrong_reply

__all__ = ["trial", "warm"]


def trial(job: Job) -> Outcome:
    """Start, ask, kill, start again."""
    outcome = Outcome()
    models = [make_model(seed) for seed in range(2)]
    expected = expected_replies(models)
    path = job.folder / "shop.rankine"
    models[0].save(path)
    for case, rng in job.cases(outcome):
        writer = KillableProcess(lambda say: _save_for_ever(say, models, path))
        writer.receive()
        began = time.monotonic()
        try:
            server = ForkedServer(job.folder, reload_seconds=0.05)
        except RuntimeError:
            outcome.fail("lost", f"{job.name(case)}: the server does not start")
            writer.kill()
            continue
        outcome.keep_maximum("restart_seconds", time.monotonic() - began)
        end = time.monotonic() + rng.uniform(0.02, 0.3)
        with server.connect() as connection:
            while True:
                connection.sendall(REQUEST)
                status, _, body = read_reply(connection)
                wrong = f"status {status}" if status != 200 else wrong_reply(body, expected)
                outcome.require(not wrong, "misread", f"{job.name(case)}: {wrong}")
                outcome.counts["requests"] += 1
                if time.monotonic() > end:
                    break
            connection.sendall(REQUEST)  # under way when the server dies
            outcome.counts["killed at work"] += server.kill() + writer.kill() == 2
    return outcome


def _save_for_ever(say, models, path) -> None:
    say(b"1")
    while True:
        for model in models:
            model.save(path)
            time.sleep(0.002)
