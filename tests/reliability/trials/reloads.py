"""Replace model files while a server answers requests: no reply may fail or mix two models.

One file in four is damaged; the previous model then stays. Each case is one replacement.
"""

from __future__ import annotations

import json
import threading
import time

import numpy as np

from integration.serve.serve_tools import NAMES, encode_request, make_model, read_reply
from rankine import Scorer
from reliability.harness.outcome import Job, Outcome
from reliability.harness.servers import ForkedServer, warm

__all__ = ["REQUEST", "ROWS", "Requester", "expected_replies", "trial", "warm"]

ROWS = [
    dict(zip(NAMES, row, strict=True))
    for row in np.random.default_rng(9).normal(size=(10, 20)).round(6).tolist()
]
REQUEST = encode_request("POST", "/v1/rank", {"items": [{"features": row} for row in ROWS]})


def expected_replies(models) -> dict[str, tuple[list[int], list[float]]]:
    """Return digest -> the order and scores that the model of that digest gives."""
    found = {}
    for model in models:
        ranking = Scorer(model).rank(ROWS)
        found[model.digest] = (ranking.indices.tolist(), ranking.scores.tolist())
    return found


def wrong_reply(body: bytes, expected) -> str:
    """Describe what is wrong with a reply; empty if it is exactly that of the model it names."""
    reply = json.loads(body)
    if reply.get("digest") not in expected:
        return f"unknown model in {body[:300]!r}"
    found = tuple([item[key] for item in reply["ranking"]] for key in ("index", "score"))
    return "" if found == expected[reply["digest"]] else f"mixed reply {body[:300]!r}"


class Requester(threading.Thread):
    """Sends one request again and again."""

    def __init__(self, server, expected) -> None:
        super().__init__(daemon=True)
        self.server, self.expected = server, expected
        self.n_requests, self.faults, self.digests = 0, [], set()
        self.stop = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            with self.server.connect() as connection:
                while not self.stop.is_set():
                    connection.sendall(REQUEST)
                    status, _, body = read_reply(connection)
                    self.n_requests += 1
                    wrong = (
                        f"status {status}" if status != 200 else wrong_reply(body, self.expected)
                    )
                    if wrong:
                        self.faults.append(wrong)
                    else:
                        self.digests.add(json.loads(body)["digest"])
        except (OSError, EOFError, ValueError) as error:
            self.faults.append(repr(error))

    def finish(self) -> None:
        self.stop.set()
        self.join(30)


def trial(job: Job) -> Outcome:
    """Replace the file of a server while two clients send requests."""
    outcome = Outcome()
    models = [make_model(seed) for seed in range(4)]
    expected = expected_replies(models)
    path = job.folder / "shop.rankine"
    models[0].save(path)
    server = ForkedServer(job.folder, reload_seconds=0.05)
    requesters = [Requester(server, expected) for _ in range(2)]
    try:
        for case, rng in job.cases(outcome):
            data = models[(case + 1) % 4].to_bytes()
            new = path.with_name(".new")
            new.write_bytes(data[: rng.randrange(len(data))] if case % 4 == 3 else data)
            new.replace(path)
            server.reload()
            time.sleep(rng.uniform(0.05, 0.15))
        for requester in requesters:
            requester.finish()
        seen = set().union(*(requester.digests for requester in requesters))
        refused = server.metric('reloads_total{result="refused"}')
        outcome.counts["requests"] += sum(requester.n_requests for requester in requesters)
        outcome.counts["refused files"] += int(refused)
        for requester in requesters:
            for failure in requester.faults[:3]:
                outcome.fail("misread" if "mixed" in failure else "lost", f"{job.kind}: {failure}")
        enough = job.count < 8 or (len(seen) >= 3 and refused >= 1)
        outcome.require(enough, "lost", f"only {len(seen)} models were served, {refused} refused")
        outcome.require(server.stop() == 0, "crashes", "the server did not stop cleanly")
    finally:
        server.kill()
    return outcome
