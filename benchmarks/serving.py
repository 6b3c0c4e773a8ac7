"""Server latency at a fixed rate, during reloads of the model, and with slow clients.

    python -m benchmarks.serving [--seconds 5] [--rate 500] [--runs 3] [--reloads 100] [--slow 200]

The server is a process of its own, and so is the client whose times are reported. The client sends
on a fixed schedule and takes each time from the moment the schedule says, so that a request that
waits behind a slow one counts its waiting (no coordinated omission). Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from rankine import LinearModel

N_ITEMS, N_FEATURES = 100, 20
NAMES = [f"feature_{j}" for j in range(N_FEATURES)]
RUN = "from rankine.cli.main import run; run()"


def model(seed: int) -> LinearModel:
    return LinearModel.from_weights(np.random.default_rng(seed).normal(size=N_FEATURES), NAMES)


def request_bytes() -> bytes:
    rng = np.random.default_rng(7)
    items = [
        {
            "id": f"d{i}",
            "features": dict(zip(NAMES, rng.normal(size=N_FEATURES).round(6), strict=True)),
        }
        for i in range(N_ITEMS)
    ]
    body = json.dumps({"model": "shop", "items": items}).encode()
    head = (
        "POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Server:
    """``rankine serve`` in a process of its own."""

    def __init__(self, path: Path, *arguments: str) -> None:
        command = [sys.executable, "-c", RUN, "-q", "serve", str(path), "--port", "0", "--json"]
        self.process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        facts = json.loads(self.process.stdout.readline())
        self.port = int(facts["url"].rsplit(":", 1)[1])

    def stop(self) -> None:
        """Stop the server with SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


class Wire:
    """One connection of the client: what it waits for, and since when it should have been sent."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due = 0.0
        self.found = b""
        self.wanted = -1

    def send(self, request: bytes, due: float) -> None:
        """Send a request that was due at a time."""
        self.due, self.found, self.wanted = due, b"", -1
        self.socket.sendall(request)

    def take(self) -> bool:
        """Read what has come; True when the reply is complete."""
        part = self.socket.recv(262144)
        if not part:
            raise ConnectionError
        self.found += part
        if self.wanted < 0 and (end := self.found.find(b"\r\n\r\n")) >= 0:
            head = self.found[:end].lower()
            length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            self.wanted = end + 4 + length
        return len(self.found) == self.wanted


def load(
    port: int, rate: float, seconds: float, check: bool, results: object, request: bytes
) -> None:
    """Open-loop load over a few connections; in a process of its own, on one thread."""
    wires = [Wire(port) for _ in range(8)]
    by_number = {wire.socket.fileno(): wire for wire in wires}
    for wire in wires:
        for _ in range(20):
            wire.send(request, 0.0)
            while not wire.take():
                pass
    times: list[float] = []
    replies: list[bytes] = []
    failed, sent, total = 0, 0, int(rate * seconds)
    idle, busy = list(wires), 0
    start = time.perf_counter() + 0.01
    while sent < total or busy:
        now = time.perf_counter()
        due = start + sent / rate
        if sent < total and idle and due <= now:
            wire = idle.pop()
            wire.send(request, due)
            sent, busy = sent + 1, busy + 1
            continue
        wait = due - now if sent < total and idle else 1.0
        # Awake a little early, and ask without sleeping until the time has come.
        for number in select.select(by_number, [], [], max(0.0, wait - 0.0002))[0]:
            wire = by_number[number]
            if wire.take():
                times.append(time.perf_counter() - wire.due)
                failed += not wire.found.startswith(b"HTTP/1.1 200 ")
                if check:
                    replies.append(wire.found.partition(b"\r\n\r\n")[2])
                idle.append(wire)
                busy -= 1
    results.put((times, failed, replies))


def measured(
    port: int, rate: float, seconds: float, check: bool = False, request: bytes | None = None
):
    results: multiprocessing.Queue = multiprocessing.Queue()
    arguments = (port, rate, seconds, check, results, request or request_bytes())
    client = multiprocessing.Process(target=load, args=arguments)
    client.start()
    result = results.get()
    client.join()
    return result


def figures(times: list[float]) -> dict[str, float]:
    at = np.percentile(np.array(times) * 1e3, [50, 90, 99, 99.9])
    names = ("median_ms", "p90_ms", "p99_ms", "p999_ms")
    return dict(zip(names, at.round(3).tolist(), strict=True)) | {"requests": len(times)}


def latency(server: Server, rate: float, seconds: float, runs: int) -> dict[str, object]:
    runs_found = []
    for _ in range(runs):
        times, failed, _ = measured(server.port, rate, seconds)
        runs_found.append(figures(times) | {"failed": failed})
    best = min(runs_found, key=lambda one: one["p99_ms"])
    return {"rate": rate, "best": best, "runs": runs_found}


def reloads(server: Server, folder: Path, count: int, rate: float) -> dict[str, object]:
    """Replace the model during load, one time in four by a damaged file."""
    models = [model(seed) for seed in range(8)]
    expected = {}
    body = json.loads(request_bytes().partition(b"\r\n\r\n")[2])
    rows = [item["features"] for item in body["items"]]
    from rankine import Scorer

    for one in models:
        ranking = Scorer(one).rank(rows)
        expected[one.digest] = (ranking.indices.tolist(), ranking.scores.tolist())
    stop = threading.Event()
    seconds = count * 0.1 + 1.0

    def change() -> None:
        for i in range(count):
            data = models[i % len(models)].to_bytes()
            if i % 4 == 3:
                data = data[: len(data) // 2] if i % 8 == 3 else data[:-1] + bytes([data[-1] ^ 1])
            temporary = folder / ".new.tmp"
            temporary.write_bytes(data)
            temporary.replace(folder / "shop.rankine")
            os.kill(server.process.pid, signal.SIGHUP)
            if stop.wait(0.1):
                return

    thread = threading.Thread(target=change)
    thread.start()
    times, failed, replies = measured(server.port, rate, seconds, check=True)
    stop.set()
    thread.join()
    mixed, digests = 0, set()
    for text in replies:
        reply = json.loads(text)
        digests.add(reply["digest"])
        found = (
            [item["index"] for item in reply["ranking"]],
            [item["score"] for item in reply["ranking"]],
        )
        mixed += expected.get(reply["digest"]) != found
    return {
        "reloads": count,
        "failed": failed,
        "mixed": mixed,
        "digests_seen": len(digests),
        **figures(times),
    }


def slow_clients(server: Server, count: int, rate: float, seconds: float) -> dict[str, object]:
    """Measure good clients next to slow ones of four kinds, and when each slow one is closed."""
    times_before, failed_before, _ = measured(server.port, rate, seconds)
    head = b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    many = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000
    slow = {}
    for i in range(count):
        kind = ("header", "body", "silent", "read")[i % 4]
        connection = socket.socket()
        if kind == "read":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", server.port))
        if kind == "header":
            connection.sendall(head + b"X-Slow: ")
        elif kind == "body":
            connection.sendall(head + b"Content-Length: 1000\r\n\r\n")
        elif kind == "read":
            connection.setblocking(False)
            connection.send(many)  # replies to these fill every buffer on the way
        connection.setblocking(False)
        slow[connection] = (kind, time.monotonic())
    closed: dict[str, list[float]] = {"header": [], "body": [], "silent": [], "read": []}

    def drip() -> None:
        while slow:
            for connection, (kind, begin) in list(slow.items()):
                gone = time.monotonic() - begin > 40
                try:
                    if kind in ("header", "body"):
                        connection.send(b"x")
                    if kind == "read":
                        poll = select.poll()
                        poll.register(connection, select.POLLHUP | select.POLLERR)
                        gone |= bool(poll.poll(0))
                    else:
                        gone |= connection.recv(4096) == b""
                except BlockingIOError:
                    pass
                except OSError:
                    gone = True
                if gone:
                    closed[kind].append(time.monotonic() - begin)
                    connection.close()
                    del slow[connection]
            time.sleep(0.25)

    thread = threading.Thread(target=drip)
    thread.start()
    during, failed_during, _ = measured(server.port, rate, seconds)
    thread.join()
    return {
        "slow_clients": count,
        "before": figures(times_before) | {"failed": failed_before},
        "during": figures(during) | {"failed": failed_during},
        "closed_after_s": {kind: round(max(times), 2) for kind, times in closed.items() if times},
        "closed": sum(map(len, closed.values())),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--reloads", type=int, default=100)
    parser.add_argument("--slow", type=int, default=200)
    options = parser.parse_args(argv)
    report: dict[str, object] = {"items": N_ITEMS, "features": N_FEATURES}
    report["request_bytes"] = len(request_bytes())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model(0).save(folder / "shop.rankine")
        server = Server(folder)
        try:
            if options.runs:
                report["latency"] = latency(server, options.rate, options.seconds, options.runs)
            if options.reloads:
                report["reload"] = reloads(server, folder, options.reloads, options.rate)
            if options.slow:
                report["slow"] = slow_clients(server, options.slow, options.rate, options.seconds)
        finally:
            server.stop()
    print(json.dumps(report))


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--seconds", "0.2", "--rate", "50", "--runs", "1", "--reloads", "1", "--slow", "2"])


def quick():
    """Run a small size."""
    main(["--seconds", "1", "--runs", "1", "--reloads", "10", "--slow", "20"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
