"""``rankine serve`` beside a service of FastAPI and LightGBM: requests a second.

    RANKINE_PEERS_PYTHON=... python -m benchmarks serving_peer

Both rank 100 items of 20 named numbers in one JSON request and run as one process; the peer parses
with orjson and predicts with 100 trees of 31 leaves on one thread. Clients send the next request
when the reply has come; both services are measured in turns. The peer is left out where
``RANKINE_PEERS_PYTHON`` has no fastapi, uvicorn, orjson and lightgbm.
"""

from __future__ import annotations

import argparse
import select
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.common.machine import save
from benchmarks.common.peers import peers_python
from benchmarks.serving import NAMES, Server, Wire, model, request_bytes

CLIENTS = (1, 8, 64)
PACKAGES = ("fastapi", "uvicorn", "orjson", "lightgbm")
APP = """
import socket, sys
import lightgbm, numpy as np, orjson, uvicorn
from fastapi import FastAPI, Request, Response

names = sys.argv[1].split(",")
rng = np.random.default_rng(0)
X = rng.normal(size=(5000, len(names)))
y = np.digitize(X @ rng.normal(size=len(names)), [0, 3, 6])
data = lightgbm.Dataset(X, y, group=[50] * 100)
options = {"objective": "lambdarank", "num_leaves": 31, "num_threads": 1, "verbosity": -1}
trees = lightgbm.train(options, data, 100)
app = FastAPI()

@app.post("/v1/rank")
async def rank(request: Request):
    items = orjson.loads(await request.body())["items"]
    rows = np.array([[item["features"][name] for name in names] for item in items])
    scores = trees.predict(rows, num_threads=1)
    order = np.argsort(-scores, kind="stable")
    ranked = [{"id": items[k]["id"], "score": float(scores[k])} for k in order]
    return Response(orjson.dumps({"items": ranked}), media_type="application/json")

# With the protocol named, asyncio switches Nagle's algorithm off, which costs 40 ms a reply.
listening = socket.socket(proto=socket.IPPROTO_TCP)
listening.bind(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
config = uvicorn.Config(app, log_level="error", access_log=False)
uvicorn.Server(config).run(sockets=[listening])
"""


@contextmanager
def peer():
    """Run the service of FastAPI and LightGBM; yield its port."""
    command = [peers_python(), "-W", "ignore", "-c", APP, ",".join(NAMES)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def ours(folder):
    """Run ``rankine serve``; yield its port."""
    model(0).save(folder / "shop.rankine")
    server = Server(folder)
    try:
        yield server.port
    finally:
        server.stop()


def requests_a_second(port, clients, seconds):
    """Measure clients that send the next request when the reply has come."""
    request = request_bytes()
    wires = [connected(port) for _ in range(clients)]
    by_number = {wire.socket.fileno(): wire for wire in wires}
    for wire in wires:
        wire.send(request, 0.0)
    started, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - started) < seconds:
        for number in select.select(by_number, [], [], 1.0)[0]:
            wire = by_number[number]
            if wire.take():
                if not wire.found.startswith(b"HTTP/1.1 200 "):
                    raise RuntimeError(wire.found[:200])
                count += 1
                wire.send(request, 0.0)
    for wire in wires:
        wire.socket.close()
    return count / spent


def connected(port):
    """Connect, waiting up to ten seconds for a service that is starting."""
    for _ in range(100):
        try:
            return Wire(port)
        except ConnectionRefusedError:
            time.sleep(0.1)
    return Wire(port)


def measure(clients, seconds, repetitions):
    services = {"rankine": ours}
    if peers_python(*PACKAGES):
        services["peer"] = lambda _: peer()
    rates = {str(count): {name: [] for name in services} for count in clients}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repetitions):
            for name, start in services.items():
                with start(Path(folder)) as port:
                    requests_a_second(port, 1, 0.5 * seconds)
                    for count in clients:
                        rate = requests_a_second(port, count, seconds)
                        rates[str(count)][name].append(rate)
    medians = {c: {n: median(v) for n, v in by_name.items()} for c, by_name in rates.items()}
    print(medians)
    save("serving_peer", {"seconds": seconds, "requests_per_second": medians, "runs": rates})


def smoke():
    """Run the smallest size, as the tests do."""
    measure((1, 2), 0.2, 1)


def quick():
    """Run for a second each."""
    measure(CLIENTS, 1.0, 1)


def full():
    """Run for five seconds each, three times in turns."""
    measure(CLIENTS, 5.0, 3)


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    full()
