"""Kill a server under load and the process that saves its model at the same moment.

Every reply before the kill must be exactly that of the model it names. The server must start again
at once and serve the old model or the new one. Each case is one kill.
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
    """Start a server, send requests, kill it and start again."""
    outcome = Outcome()
    models = [make_model(seed) for seed in range(2)]
    expected = expected_replies(models)
    path = job.folder / "shop.rankine"
    models[0].save(path)
    for case, rng in job.cases(outcome):
        writer = KillableProcess(lambda report: _save_for_ever(report, models, path))
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


def _save_for_ever(report, models, path) -> None:
    report(b"1")
    while True:
        for model in models:
            model.save(path)
            time.sleep(0.002)
