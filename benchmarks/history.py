"""History features on a server: latency of rankings, ingestion of events, restart.

    python -m benchmarks.history [--part latency ingestion restart] [--seconds 10] [--keys 10000000]

Other programs on the machine disturb times, so each figure of the server also has its processor
seconds. Results go to benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common.machine import add
from benchmarks.serving import Server, Wire, figures, measured
from rankine import LinearModel
from rankine.core.specs import History, LogColumns
from rankine.history.declarations import read_declarations
from rankine.history.folder import LiveFolder
from rankine.history.live import EventRecord
from rankine.history.state import HistoryState, save_state

DECLARATIONS = {
    "item_ctr": {"rate": "clicked", "by": ["item"], "half_life": "7d"},
    "query_item_ctr": {"rate": "clicked", "by": ["query", "item"], "half_life": "30d"},
    "user_brand": {"count": "clicked + 4*bought", "by": ["user", "brand"], "window": "14d"},
    "paid": {"mean": "price", "weight": "bought", "by": ["user"], "half_life": "60d"},
    "hours_since_click": {"last": "clicked", "by": ["user", "item"]},
}
N_ITEMS = 100
DAY = 86400 * 10**6


def declare() -> History:
    features = read_declarations(DECLARATIONS)
    return History(tuple(features), tuple(features.values()), "session", "ts")


def save_model(path: Path) -> None:
    history = declare()
    columns = ("session", "ts", "item", "query", "user", "brand", "clicked", "bought")
    spec = LogColumns(numeric=("price", *history.names), ignored=columns)
    weights = np.random.default_rng(0).normal(size=spec.n_features)
    LinearModel.from_weights(weights, transforms=[spec, history]).save(path)


def encode(path: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def ranked_list(rng: np.random.Generator, n_items: int = N_ITEMS) -> dict[str, object]:
    items = [
        {"id": f"P{item}", "raw": {"item": f"P{item}", "brand": f"b{item % 50}", "price": 9.5}}
        for item in rng.integers(0, 100_000, n_items).tolist()
    ]
    context = {"user": f"U{rng.integers(0, 10**6)}", "query": f"query {rng.integers(0, 5000)}"}
    return {"items": items, "context": context}


def event_batch(rng: np.random.Generator, number: int, n_rows: int = 100) -> list[object]:
    """Return lists of ten rows, each with one click."""
    events: list[object] = []
    for k in range(n_rows // 10):
        name = f"{number}-{k}"
        shown = ranked_list(rng, 10)
        clicked = shown["items"][3]["id"]  # type: ignore[index]
        events.append({"type": "shown", "id": f"s{name}", "list": name, **shown})
        events.append({
            "type": "outcome", "id": f"o{name}", "list": name, "item": clicked,
            "outcomes": {"clicked": 1, "bought": k == 0},
        })  # fmt: skip
    return events


def send(port: int, rate: float | None, seconds: float, results: multiprocessing.Queue) -> None:
    """Send batches of events at a rate, or as fast as they are accepted."""
    rng = np.random.default_rng(os.getpid())
    first = os.getpid() * 10**6
    # Encoding on the way would take the time of the core that is measured.
    n_requests = int(seconds * (rate or 400)) + 1
    requests = [encode("/v1/events", event_batch(rng, first + i)) for i in range(n_requests)]
    wire = Wire(port)
    start = time.perf_counter()
    sent, failed = 0, 0
    while sent < n_requests and time.perf_counter() - start < seconds:
        if rate is not None:
            time.sleep(max(0.0, start + sent / rate - time.perf_counter()))
        wire.send(requests[sent], 0.0)
        while not wire.take():
            pass
        failed += not wire.found.startswith(b"HTTP/1.1 202 ")
        sent += 1
    results.put((sent, failed, time.perf_counter() - start))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def latency(server: Server, rate: float, seconds: float) -> dict[str, object]:
    """Time rankings of 100 items: alone, and while 1,000 rows a second arrive."""
    request = encode("/v1/rank", ranked_list(np.random.default_rng(1)))
    report: dict[str, object] = {"request_bytes": len(request)}
    for name, batches in (("idle", None), ("while_1000_rows_a_second_arrive", 10.0)):
        results: multiprocessing.Queue = multiprocessing.Queue()
        sender = None
        if batches is not None:
            sender = multiprocessing.Process(
                target=send, args=(server.port, batches, seconds + 3, results)
            )
            sender.start()
            time.sleep(1.0)
        cpu = cpu_seconds(server.process.pid)
        times, failed, _ = measured(server.port, rate, seconds, request=request)
        cpu = cpu_seconds(server.process.pid) - cpu
        # The client warms up with 160 requests.
        cpu_ms = round(1e3 * cpu / (len(times) + 160), 3)
        report[name] = {**figures(times), "failed": failed, "cpu_ms_per_request": cpu_ms}
        if sender is not None:
            report["batches_sent"] = results.get()[:2]
            sender.join()
    return report


def ingestion(server: Server, seconds: float) -> dict[str, object]:
    """Measure the rows per second that two senders together can report."""
    results: multiprocessing.Queue = multiprocessing.Queue()
    senders = [
        multiprocessing.Process(target=send, args=(server.port, None, seconds, results))
        for _ in range(2)
    ]
    cpu = cpu_seconds(server.process.pid)
    for sender in senders:
        sender.start()
    counts = [results.get() for _ in senders]
    cpu = cpu_seconds(server.process.pid) - cpu
    n_rows = 100 * sum(sent for sent, _, _ in counts)
    return {
        "rows": n_rows,
        "failed_batches": sum(failed for _, failed, _ in counts),
        "rows_per_second": round(n_rows / max(wall for _, _, wall in counts)),
        "rows_per_processor_second": round(n_rows / cpu),
        "resident_mib": resident_mib(server.process.pid),
    }


def fill(folder: Path, n_keys: int, n_rows: int) -> None:
    """Write a state with keys, and a log of rows of which no snapshot knows."""
    history = declare()
    rng = np.random.default_rng(2)
    now = int(time.time() * 10**6)
    state = HistoryState(history)
    n_groups, n_amounts = len(state.reader.keys), len(state.reader.amounts)
    step = 100_000
    for start in range(0, n_keys // 5, step):
        # Each row has a new key for each of the five features.
        keys = rng.integers(1, 1 << 62, (n_groups, step))
        starts = np.arange(0, step + 1, 100)
        times = np.full(len(starts) - 1, now - DAY + start)
        ids = rng.integers(1, 1 << 62, len(times))
        state.add_lists(ids, keys, np.ones((n_amounts, step)), starts, times)
        state.advance(now - DAY + start + 1)
    save_state(state, folder)
    log = LiveFolder(folder, history, join_ttl=DAY)
    height = log.live.layout.height
    for i in range(n_rows // 100):
        lists = np.column_stack(
            [rng.integers(1, 1 << 62, 10), np.full(10, now - 10**6 + i), np.full(10, 10)]
        )
        rows = rng.integers(1, 1 << 62, (height, 100))
        rows[log.live.layout.changing] = np.ones((1, 100)).view(np.int64)
        outcomes = np.column_stack([lists[:, 0], rows[0, ::10], lists[:, 1]])
        changes = np.ones((height - log.live.layout.numbers.start, 10))
        ids = rng.integers(1, 1 << 62, 20)
        parts = (ids, lists, rows, outcomes, changes)
        log.append(EventRecord(*(np.ascontiguousarray(part).tobytes() for part in parts)), 100)
    log.close()


def restart(path: Path, folder: Path, n_keys: int, n_rows: int) -> dict[str, object]:
    """Time the start of a server with many keys and a log to replay."""
    fill(folder, n_keys, n_rows)
    report: dict[str, object] = {"keys": n_keys, "log_rows": n_rows}
    empty = folder.parent / "empty"
    for name, state in (("empty", empty), ("full", folder)):
        start = time.perf_counter()
        server = Server(path, "--state", str(state))
        report[name] = {
            "seconds": round(time.perf_counter() - start, 2),
            "cpu_seconds": round(cpu_seconds(server.process.pid), 2),
            "resident_mib": resident_mib(server.process.pid),
        }
        server.stop()
    files = {file.name: file.stat().st_size // 2**20 for file in sorted(folder.iterdir())}
    return report | {"files_mib": files}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("latency", "ingestion", "restart")
    parser.add_argument("--part", nargs="+", default=parts, choices=parts)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "shop.rankine"
        save_model(path)
        if {"latency", "ingestion"} & set(options.part):
            server = Server(path, "--state", str(Path(name) / "state"))
            try:
                if "latency" in options.part:
                    add("history_server", "latency", latency(server, options.rate, options.seconds))
                if "ingestion" in options.part:
                    add("history_server", "ingestion", ingestion(server, options.seconds))
            finally:
                server.stop()
        if "restart" in options.part:
            folder = Path(name) / "many"
            add("history_server", "restart", restart(path, folder, options.keys, options.rows))


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--seconds", "0.3", "--keys", "1000", "--rows", "1000"])


def quick():
    """Run a small size."""
    main(["--seconds", "2", "--keys", "200000", "--rows", "50000"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
