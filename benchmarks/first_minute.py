"""Seconds until the first results: first and second command, first served ranking, warmup.

    python -m benchmarks.first_minute [PART ...]

Parts are ``train``, ``serve``, ``warmup`` and ``prebuilt``; all of them without a name. ``train``
runs ``rankine train`` of every ranker on a text file of 320 rows with an empty kernel cache, then
again; ``serve`` starts a server with an empty cache and waits for the first ranked list;
``prebuilt`` trains with the folder of ``rankine warmup --into``. Wall seconds of whole processes on
however many cores the machine has, imports included, with the package's bytecode written before, as
pip does; ``compile_seconds`` is what the process that trains spends on compiling and on waiting for
the one beside it, ``cpu`` what all of its processes spend in all. Prints one JSON object a part.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks.common.machine import add
from rankine import Dataset, LinearModel
from rankine.data.writers import write_letor
from rankine.rankers.registry import RANKERS

#: Second runs, of which the quickest counts.
AGAIN = 3
PACKAGE = Path(importlib.util.find_spec("rankine").origin).parent
COMMAND = (sys.executable, "-c", "from rankine.cli.main import run; run()")
ITEM = {"id": "a", "indices": [1, 2, 3, 4, 5, 6], "values": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}


def small_file(folder):
    """Write 20 lists of 16 rows and 6 features as text."""
    rng = np.random.default_rng(0)
    data = Dataset.from_arrays(
        rng.random((320, 6)).round(4), rng.integers(0, 3, 320), np.repeat(np.arange(20), 16)
    )
    write_letor([data], folder / "small.txt")
    return folder / "small.txt"


def rankine(cache, *words):
    """Run a command; return its wall and CPU seconds and its JSON output."""
    begun, usage_before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    completed = subprocess.run(
        [*COMMAND, *map(str, words), "--json"],
        env={**os.environ, "RANKINE_CACHE_DIR": str(cache)},
        capture_output=True,
        check=True,
    )
    wall, usage = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage.ru_utime + usage.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    return {"wall": round(wall, 2), "cpu": round(cpu, 2)}, json.loads(completed.stdout)


def train(folder):
    """Measure the first and the second training of every ranker."""
    results = {}
    for ranker in RANKERS:
        arguments = ["train", small_file(folder), "--ranker", ranker, "--out", folder / "m.rankine"]
        first, report = rankine(folder / ranker, *arguments)
        first["compile_seconds"] = report["compile_seconds"]
        again = [rankine(folder / ranker, *arguments)[0] for _ in range(AGAIN)]
        results[ranker] = {"first": first, "second": min(again, key=lambda one: one["wall"])}
    return results


def serve(folder):
    """Measure the seconds from the start of a server to its first ranked list."""
    LinearModel.from_weights(np.arange(6.0)).save(folder / "served.rankine")
    begun = time.perf_counter()
    server = subprocess.Popen(
        [*COMMAND, "serve", folder / "served.rankine", "--port", "0", "--json"],
        env={**os.environ, "RANKINE_CACHE_DIR": str(folder / "serve")},
        stdout=subprocess.PIPE,
    )
    try:
        url = json.loads(server.stdout.readline())["url"]
        connection = HTTPConnection(urlsplit(url).netloc)
        connection.request(
            "POST", "/v1/rank", json.dumps({"items": [ITEM]}), {"Content-Type": "application/json"}
        )
        assert "ranking" in json.load(connection.getresponse())
        return round(time.perf_counter() - begun, 2)
    finally:
        server.terminate()
        server.wait()


def warmup(folder):
    """Measure the seconds of compiling everything."""
    return rankine(folder / "warm", "warmup")[0]


def prebuilt(folder):
    """Measure trainings with a kernel cache that was filled before."""
    rankine(folder / "other", "warmup", "--into", folder / "kernels")
    return {
        ranker: rankine(
            folder / "kernels",
            *("train", small_file(folder), "--ranker", ranker, "--out", folder / "m.rankine"),
        )[0]
        for ranker in RANKERS
    }


PARTS = {"train": train, "serve": serve, "warmup": warmup, "prebuilt": prebuilt}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    options = parser.parse_args(argv)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(PACKAGE, quiet=1)
    for part in options.parts or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            result = PARTS[part](Path(folder))
        print(json.dumps({part: result}))
        add("first_minute", part, result)


def smoke():
    """Run the smallest size, as the tests do."""
    main(["serve"])


def quick():
    """Run a small size."""
    main(["train"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
