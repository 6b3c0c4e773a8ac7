"""Clients that send or read a byte now and then: closed in time, and they hold up nobody."""

from __future__ import annotations

import contextlib
import select
import socket
import time

from integration.serve.serve_tools import encode_request, make_model, read_reply
from reliability.harness.outcome import Job, Outcome
from reliability.harness.servers import ForkedServer, warm

__all__ = ["trial", "warm"]

KINDS = ("header", "body", "silent", "read")
LIMITS = {"header_seconds": 1.0, "request_seconds": 1.5, "idle_seconds": 2.0, "send_seconds": 1.0}
#: A slow reader is answered until nothing more fits; then its second begins.
DEADLINES = {"header": 1.0, "body": 1.5, "silent": 2.0, "read": 3.0}
#: Seconds more: one is promised, one is for a busy machine.
GRACE = 2.0
#: Half of the good requests take less than this, whatever the others do.
MEDIAN_SECONDS = 0.25
HEAD = b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GOOD = encode_request("POST", "/v1/rank", {"items": [{"features": {"feature_1": 1}}]})


class Slow:
    """One slow client, which notices when it is closed."""

    def __init__(self, port, kind):
        self.kind, self.begin, self.closed = kind, time.monotonic(), None
        self.socket = socket.socket()
        if kind == "read":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        if kind == "header":
            self.socket.send(HEAD + b"X-Slow: ")
        elif kind == "body":
            self.socket.send(HEAD + b"Content-Length: 1000\r\n\r\n")
        elif kind == "read":
            self.send(encode_request("GET", "/openapi.json") * 600)

    def send(self, data):
        with contextlib.suppress(BlockingIOError):
            self.socket.send(data)

    def step(self):
        try:
            if self.kind in ("header", "body"):
                self.send(b"x")
            if self.kind == "read":
                poll = select.poll()
                poll.register(self.socket, select.POLLHUP | select.POLLERR)
                gone = bool(poll.poll(0))
            else:
                gone = self.socket.recv(4096) == b""
        except BlockingIOError:
            gone = False
        except OSError:
            gone = True
        if gone:
            self.closed = time.monotonic() - self.begin
            self.socket.close()
        return gone


def ask(connection, times, count):
    """Good requests, timed."""
    for _ in range(count):
        begin = time.perf_counter()
        connection.sendall(GOOD)
        assert read_reply(connection)[0] == 200
        times.append(time.perf_counter() - begin)


def trial(job: Job) -> Outcome:
    """All slow clients of the batch at once; each is a case."""
    outcome = Outcome()
    make_model(0).save(job.folder / "shop.rankine")
    server = ForkedServer(
        job.folder, connections=job.count + 50, connections_per_address=job.count + 50, **LIMITS
    )
    try:
        connection = server.connect()
        alone: list[float] = []
        ask(connection, alone, 200)
        slow = [Slow(server.port, KINDS[case % 4]) for case, _ in job.cases(outcome)]
        waiting, times = list(slow), []
        while waiting and time.monotonic() - slow[0].begin < 30:
            waiting = [one for one in waiting if not one.step()]
            ask(connection, times, 3)
            time.sleep(0.1)
        for one in slow:
            late = one.closed is None or one.closed > DEADLINES[one.kind] + GRACE
            early = one.kind != "read" and not late and one.closed < DEADLINES[one.kind] - 0.1
            outcome.require(not (late or early), "slow", f"{one.kind} closed after {one.closed}")
            if one.closed is not None:
                outcome.keep_maximum("closed_seconds_late", one.closed - DEADLINES[one.kind])
        for name, values in (("alone", alone), ("among_slow", times)):
            values.sort()
            outcome.keep_maximum(f"median_ms_{name}", 1e3 * values[len(values) // 2])
            outcome.keep_maximum(f"p99_ms_{name}", 1e3 * values[int(0.99 * len(values))])
        outcome.require(times[len(times) // 2] < MEDIAN_SECONDS, "slow", "good clients wait")
        for kind in ("header", "body", "idle", "send"):
            counted = server.metric(f'refused_total{{limit="{kind}_deadline"}}')
            outcome.require(counted > 0, "slow", f"no {kind} deadline was counted")
        outcome.require(server.stop() == 0, "crashes", "the server did not stop cleanly")
    finally:
        server.kill()
    return outcome
