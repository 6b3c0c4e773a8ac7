"""Read from a store with 20 ms latency, compared with reading the same file from the disk.

    python -m benchmarks.reading.stores [--rows 300000] [--latency 0.02]

A server of the requests that reading takes (HEAD and GET with ranges) runs in another process on
loopback, and waits before each answer. A Parquet file of 30 columns and LETOR text are scanned from
the disk and through ``s3://``, taking turns: wall time, the best of 5 passes. Two passes also train
``ElasticRanker``, which is what a stream is read for. CPU seconds are those of the reading process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rankine
from benchmarks.common.machine import save

PASSES, N_COLUMNS = 5, 30


def serve(folder, latency, port):
    """Serve the files of a folder as the objects of a bucket."""

    class Objects(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            time.sleep(latency)
            file = Path(folder) / self.path.partition("?")[0].rpartition("/")[2]
            if not file.is_file():
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            size = file.stat().st_size
            start, stop, status = 0, size, 200
            if "Range" in self.headers:
                first, last = self.headers["Range"].removeprefix("bytes=").split("-")
                start, stop, status = int(first), min(int(last) + 1, size), 206
            self.send_response(status)
            self.send_header("Content-Length", str(stop - start))
            self.send_header("ETag", f'"{file.stat().st_mtime_ns}"')
            self.send_header("Last-Modified", "Thu, 19 Nov 2026 12:00:00 GMT")
            self.end_headers()
            self.wfile.flush()
            if self.command == "GET":
                with file.open("rb") as content:
                    os.sendfile(self.connection.fileno(), content.fileno(), start, stop - start)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Objects)
    port.value = server.server_port
    server.serve_forever()


def write_files(folder, n_rows):
    rng = np.random.default_rng(0)
    columns = {f"f{j}": rng.normal(size=n_rows) for j in range(N_COLUMNS)}
    label = (columns["f0"] + rng.normal(size=n_rows) > 1).astype(np.int64)
    table = pa.table({"qid": np.arange(n_rows) // 20, "label": label, **columns})
    pq.write_table(table, f"{folder}/rows.parquet", row_group_size=65536)
    part = rankine.load(f"{folder}/rows.parquet").take(slice(0, n_rows // 5))
    part.save(f"{folder}/rows.txt")


def scan(path):
    return sum(block.n_rows for block in rankine.scan(path, n_features=N_COLUMNS))


def train(path):
    stream = rankine.scan(path, n_features=N_COLUMNS)
    return rankine.ElasticRanker(random_state=0).fit(stream).coef_.tobytes()


def measure(folder):
    results = {}
    for file in ("rows.parquet", "rows.txt"):
        places = {"disk": f"{folder}/{file}", "store": f"s3://bucket/{file}"}
        best = dict.fromkeys(places, float("inf"))
        cpu = dict.fromkeys(places, float("inf"))
        trained = dict.fromkeys(places, float("inf"))
        bits = set()
        for k in range(PASSES):
            for place, path in places.items():
                started, cpu_started = time.perf_counter(), time.process_time()
                scan(path)
                best[place] = min(best[place], time.perf_counter() - started)
                cpu[place] = min(cpu[place], time.process_time() - cpu_started)
                if k < 2:
                    started = time.perf_counter()
                    bits.add(train(path))
                    trained[place] = min(trained[place], time.perf_counter() - started)
        assert len(bits) == 1, "the store gives other bits"
        results[file] = {
            "megabytes": Path(places["disk"]).stat().st_size / 1e6,
            "scan_seconds": best,
            "scan_cpu_seconds": cpu,
            "scan_ratio": best["store"] / best["disk"],
            "train_seconds": trained,
            "train_ratio": trained["store"] / trained["disk"],
        }
    return results


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--latency", type=float, default=0.02)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, arguments.rows)
        context = multiprocessing.get_context("fork")
        port = context.Value("i", 0)
        server = context.Process(target=serve, args=(folder, arguments.latency, port), daemon=True)
        server.start()
        while not port.value:
            time.sleep(0.01)
        os.environ |= {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port.value}",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        results = measure(folder)
        server.terminate()
    for file, values in results.items():
        print(f"{file}: scan {values['scan_ratio']:.2f}, training {values['train_ratio']:.2f}")
        print(f"  {values}")
    save("stores", {"latency_seconds": arguments.latency, "files": results})


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--rows", "2000", "--latency", "0.001"])


def quick():
    """Run a small size."""
    main(["--rows", "50000"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
