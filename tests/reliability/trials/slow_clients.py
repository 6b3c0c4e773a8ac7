"""Connect clients that send or read slowly: they must be closed in time and delay nobody."""

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
#: Replies to a slow reader are sent until the buffers are full; then its deadline begins.
DEADLINES = {"header": 1.0, "body": 1.5, "silent": 2.0, "read": 3.0}
#: Allowed delay in seconds: one is documented, one is for a busy machine.
GRACE = 2.0
#: Half of the good requests must take less than this.
MEDIAN_SECONDS = 0.25
HEAD = b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GOOD = encode_request("POST", "/v1/rank", {"items": [{"features": {"feature_1": 1}}]})


class SlowClient:
    """A slow client that notices when its connection is closed."""

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


def send_good_requests(connection, times, count):
    """Send good requests and record their times."""
    for _ in range(count):
        begin = time.perf_counter()
        connection.sendall(GOOD)
        assert read_reply(connection)[0] == 200
        times.append(time.perf_counter() - begin)


def trial(job: Job) -> Outcome:
    """Connect all slow clients of the batch at once; each is a case."""
    outcome = Outcome()
    make_model(0).save(job.folder / "shop.rankine")
    server = ForkedServer(
        job.folder, connections=job.count + 50, connections_per_address=job.count + 50, **LIMITS
    )
    try:
        connection = server.connect()
        alone: list[float] = []
        send_good_requests(connection, alone, 200)
        slow = [SlowClient(server.port, KINDS[case % 4]) for case, _ in job.cases(outcome)]
        waiting, times = list(slow), []
        while waiting and time.monotonic() - slow[0].begin < 30:
            waiting = [client for client in waiting if not client.step()]
            send_good_requests(connection, times, 3)
            time.sleep(0.1)
        for client in slow:
            late = client.closed is None or client.closed > DEADLINES[client.kind] + GRACE
            early = (
                client.kind != "read" and not late and client.closed < DEADLINES[client.kind] - 0.1
            )
            outcome.require(
                not (late or early), "slow", f"{client.kind} closed after {client.closed}"
            )
            if client.closed is not None:
                outcome.keep_maximum("closed_seconds_late", client.closed - DEADLINES[client.kind])
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
