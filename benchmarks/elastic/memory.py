"""Peak memory of training ElasticRank on a long generated stream (Linux).

    python -m benchmarks.elastic.memory [--gigabytes 20]

Purchase lists of 2^20 features are written as text into the standard input of ``rankine train -
--stream --ranker elastic``, each list with a number of its own, so nothing is kept on disk. The
peak (``VmHWM``) of that process is read every 20 ms until it ends, and compared with the peak of
an interpreter that has only imported what the command imports.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from itertools import count
from pathlib import Path

from benchmarks.common.machine import add
from benchmarks.common.workloads import CLICK_FEATURES, click_lists

IMPORTED = """
import rankine, rankine.cli.main, rankine.cli.train
from pathlib import Path
rankine.ElasticRanker, rankine.scan, rankine.LinearModel
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""
COMMAND = "from rankine.cli.main import run; run()"
TEMPLATES = 5000


def peak(process):
    """Return ``VmHWM`` of a process in MiB, or 0 if it has ended."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return 0.0


def list_texts():
    """Return the lists as text, with ``{q}`` as placeholder of the query id."""
    data = click_lists(TEMPLATES, seed=3)
    rows = zip(data.X.indices.reshape(-1, 40), data.X.data.reshape(-1, 40), data.y, strict=True)
    lines = [
        f"{y:g} qid:{{q}} {' '.join(f'{j + 1}:{v:g}' for j, v in zip(i, x, strict=True))}\n"
        for i, x, y in rows
    ]
    starts = data.queries.starts
    return ["".join(lines[a:b]).encode() for a, b in zip(starts[:-1], starts[1:], strict=True)]


def feed(pipe, texts, size):
    """Write ``size`` bytes of lists into a pipe; the number of bytes and lists."""
    written = 0
    for number in count(1):
        text = texts[number % len(texts)].replace(b"{q}", b"%d" % number)
        pipe.write(text)
        written += len(text)
        if written >= size:
            return written, number
    return written, 0


def train(texts, size, model):
    """Train on a stream of ``size`` bytes; bytes, lists, seconds and peak megabytes."""
    command = [sys.executable, "-c", COMMAND, "train", "-", "--stream", "--ranker", "elastic"]
    command += ["--n-features", str(CLICK_FEATURES), "--n-passes", "1", "--out", str(model)]
    # Standard input is read only once: no scaling, and no step size chosen from the first lists.
    command += ["--set", "scale=none", "--set", "eta0=0.2"]
    command += ["--set", "adaptive=true", "--set", "l1=1e-5"]
    begun = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        highest = [0.0]

        def watch():
            while process.poll() is None:
                highest[0] = max(highest[0], peak(process))
                time.sleep(0.02)

        watcher = threading.Thread(target=watch)
        watcher.start()
        written, lists = feed(process.stdin, texts, size)
        process.stdin.close()
        watcher.join()
        errors = process.stderr.read().decode()
    if process.returncode != 0:
        raise SystemExit(f"training ended with status {process.returncode}: {errors[-2000:]}")
    return written, lists, time.perf_counter() - begun, highest[0]


def measure(gigabytes):
    """Measure the peak memory of training on a stream of the given size."""
    texts = list_texts()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.rankine"
        train(texts, 2**20, model)  # compiles
        out = subprocess.run(
            [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True
        )
        imported = int(out.stdout) / 1024
        written, lists, seconds, highest = train(texts, gigabytes * 1e9, model)
    return {
        "gigabytes": round(written / 1e9, 3),
        "lists": lists,
        "wall_s": round(seconds, 1),
        "imported_mb": round(imported, 1),
        "peak_mb": round(highest, 1),
        "above_import_mb": round(highest - imported, 1),
    }


def report(gigabytes):
    """Measure, print and keep."""
    row = measure(gigabytes)
    print(row)
    add("elastic", "memory", row)


def smoke():
    """Run the smallest size, as the tests do."""
    report(0.005)


def quick():
    """Measure a short stream."""
    report(0.3)


def full():
    """Measure a stream larger than most machines' memory."""
    report(20.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20.0)
    report(parser.parse_args().gigabytes)


if __name__ == "__main__":
    main()
