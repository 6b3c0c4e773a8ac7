"""Send fuzzed requests to a real server: each must be answered, and none with 5xx.

A request with status 200 must be strict JSON (no duplicate keys, no NaN), and the scores of simple
requests must equal those computed in Python. The first batch also sends bytes that are not a
request, and model names that are paths of files.
"""

from __future__ import annotations

import json
import math

from integration.serve.serve_tools import encode_request, make_model, read_reply
from rankine.core.strict_json import parse_json_strictly
from reference.hostile_http import body, raw_cases, traversals
from reliability.harness.outcome import Job, Outcome
from reliability.harness.servers import ForkedServer, save_models, warm

__all__ = ["trial", "warm"]

ALLOWED = {200, 400, 404, 413, 422}
#: Allowed growth of the server's memory over a batch, after the first requests.
DRIFT = 5 * 2**20
SETTLED = 500
WEIGHTS = dict(zip(make_model(0).weight_names, make_model(0).values.tolist(), strict=True))


def trial(job: Job) -> Outcome:
    """Start a server and send it the requests of the batch."""
    outcome = Outcome()
    server = ForkedServer(save_models(job.folder))
    before = None
    try:
        if job.first == 0:
            _raw(outcome, server)
            _names(outcome, server, job.folder)
        connection = server.connect()
        for case, rng in job.cases(outcome):
            if case - job.first == SETTLED:
                before = server.metric("resident_memory_bytes")
            data = body(rng)
            path = "/v1/rank" if rng.random() < 0.6 else "/v1/score"
            connection.sendall(encode_request("POST", path, data))
            try:
                status, _, reply = read_reply(connection)
            except (OSError, EOFError) as error:
                outcome.fail("crashes", f"{job.name(case)}: {error!r} for {data!r}")
                connection = server.connect()
                continue
            outcome.counts[str(status)] += 1
            _check_reply(outcome, f"{job.name(case)}: {status} for {data!r}", data, status, reply)
        connection.close()
        ready = server.request("GET", "/readyz")[0] == 200
        outcome.require(ready, "crashes", "the server is not ready afterwards")
        if before is not None:
            drift = server.metric("resident_memory_bytes") - before
            outcome.keep_maximum("memory_drift_mb", drift / 2**20)
            outcome.require(drift < DRIFT, "crashes", f"memory grew by {drift} bytes")
        outcome.require(server.stop() == 0, "crashes", "the server did not stop cleanly")
    finally:
        server.kill()
    return outcome


def _check_reply(outcome: Outcome, message: str, data: bytes, status: int, reply: bytes) -> None:
    outcome.require(status in ALLOWED, "crashes", message)
    try:
        found = parse_json_strictly(reply)
    except ValueError:
        outcome.fail("misread", f"{message}: the reply is not JSON: {reply[:300]!r}")
        return
    if status != 200:
        outcome.require("error" in found, "misplaced", f"{message}: {reply[:300]!r}")
        return
    try:
        asked = parse_json_strictly(data)
    except (ValueError, RecursionError):
        outcome.fail("accepted", message)
        return
    outcome.require("error" not in found, "misread", message)
    wanted = expected_scores(asked)
    if wanted is None:
        return
    got = dict(_scores(found))
    same = len(got) == len(wanted) and all(
        math.isclose(got[k], value, rel_tol=1e-12, abs_tol=1e-12) for k, value in enumerate(wanted)
    )
    outcome.counts["scores checked"] += 1
    outcome.require(same, "misread", f"{message}: {got} instead of {wanted}")


def expected_scores(asked):
    """Compute the scores of a simple request to the first model; None for other requests."""
    plain = isinstance(asked, dict) and set(asked) == {"model", "items"}
    if not plain or asked["model"] != "shop":
        return None
    items = asked["items"]
    if not all(set(item) <= {"id", "features"} and "features" in item for item in items):
        return None
    return [
        math.fsum(WEIGHTS[name] * value for name, value in item["features"].items())
        for item in items
    ]


def _scores(reply):
    if "ranking" in reply:
        return [(item["index"], item["score"]) for item in reply["ranking"]]
    return list(enumerate(reply["scores"]))


def _raw(outcome: Outcome, server: ForkedServer) -> None:
    """Send smuggled and badly framed requests: 4xx or a closed connection, at most one reply."""
    for data in raw_cases():
        found = server.raw(data)
        statuses = [part[:3] for part in found.split(b"HTTP/1.1 ")[1:]]
        message = f"raw {data[:200]!r}: {found[:200]!r}"
        refused = all(status.startswith(b"4") for status in statuses)
        outcome.require(refused and len(statuses) <= 1, "accepted", message)
        outcome.require(b"Traceback" not in found, "crashes", message)
        outcome.counts["raw"] += 1


def _names(outcome: Outcome, server: ForkedServer, folder) -> None:
    """Ask for models by names that are paths: they must never be opened."""
    served = {"log", "plain", "scaled", "shop"} | {f"topics/{t}" for t in ("earn", "grain", "a/b")}
    with server.connect() as connection:
        for name in traversals(folder):
            assert name not in served
            connection.sendall(encode_request("POST", "/v1/rank", {"model": name, "items": []}))
            status, _, reply = read_reply(connection)
            private = str(folder) in reply.decode()
            outcome.require(status == 404 and not private, "accepted", f"{name!r}: {reply!r}")
            escaped = "".join(c if c.isalnum() else f"%{ord(c) % 256:02x}" for c in name)
            connection.sendall(encode_request("GET", f"/v1/models/{escaped}"))
            status, _, reply = read_reply(connection)
            known = status == 200 and json.loads(reply)["name"] in served | {"topics"}
            outcome.require(known or status == 404, "accepted", f"{escaped!r}: {reply!r}")
            outcome.counts["names"] += 1
