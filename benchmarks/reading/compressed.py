"""Speed of streaming LETOR text, plain and compressed, and what limits it.

    python -m benchmarks.reading.compressed [--repeat 5]

Streams the files of ``benchmarks.reading.text`` through ``rankine.scan``, including all checks,
plain and compressed. Also measured are the CPU seconds of the tokenizer in the same pass and those
of the decompressor alone on the same bytes. The slower of the two limits a compressed stream. The
best of ``--repeat`` runs is reported: wall seconds of the stream, CPU seconds of its parts.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import lzma
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import rankine
from benchmarks.common.machine import save
from benchmarks.reading.text import generate
from rankine.data.readers import letor

#: Suffix -> compressor of bytes, and a file whose bytes come out of the decompressor.
KINDS = {
    ".gz": (lambda text: gzip.compress(text, 6), gzip.open),
    ".bz2": (bz2.compress, bz2.open),
    ".xz": (lambda text: lzma.compress(text, preset=1), lzma.open),
    ".zst": (pa.Codec("zstd").compress, lambda path: pa.CompressedInputStream(path, "zstd")),
}
WANTED = 0.9


class Tokenizer:
    """CPU seconds inside the tokenizer, whichever thread runs it."""

    def __init__(self):
        self.seconds, self.parse = 0.0, letor.parse_lines

    def __call__(self, *arguments):
        """Parse some lines and add up the time."""
        begun = time.thread_time()
        parsed = self.parse(*arguments)
        self.seconds += time.thread_time() - begun
        return parsed


def streamed(path, n_features, repeat):
    """Return wall and CPU seconds of the quickest pass, and the tokenizer's in the same pass."""
    passes = []
    for _ in range(repeat):
        letor.parse_lines = tokenizer = Tokenizer()
        try:
            begun, cpu = time.perf_counter(), time.process_time()
            for _block in rankine.scan(path, n_features=n_features):
                pass
            wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
        finally:
            letor.parse_lines = tokenizer.parse
        passes.append({"wall": wall, "cpu": cpu, "tokenizer": tokenizer.seconds})
    return min(passes, key=lambda one: one["wall"])


def unpacked(opened, path, repeat):
    """Measure the CPU seconds of the decompressor alone."""
    best = float("inf")
    for _ in range(repeat):
        begun = time.process_time()
        with opened(path) as file:
            while file.read(1 << 20):
                pass
        best = min(best, time.process_time() - begun)
    return best


def measure(files, repeat):
    """Measure every file plain and compressed."""
    results = {}
    for path in files:
        n_features = rankine.load(path).n_features
        megabytes = path.stat().st_size / 1e6
        plain = streamed(path, n_features, repeat)
        result = results[path.stem] = {
            "megabytes": megabytes,
            **plain,
            "of_the_tokenizer": plain["tokenizer"] / plain["wall"],
            "compressed": {},
        }
        for suffix, (compress, opened) in KINDS.items():
            packed = path.with_name(path.name + suffix)
            packed.write_bytes(compress(path.read_bytes()))
            stream, alone = streamed(packed, n_features, repeat), unpacked(opened, packed, repeat)
            slower = max(alone, stream["tokenizer"])
            result["compressed"][suffix] = {**stream, "decompressor": alone} | {
                "of_the_slower": slower / stream["wall"]
            }
        print(path.stem, result, flush=True)
        save("reading", {"repeat": repeat, "wanted": WANTED, "files": results})


def smoke():
    """Run the smallest size, as the tests do."""
    with tempfile.TemporaryDirectory() as folder:
        measure(generate(Path(folder), 500), 1)


def quick():
    full(repeat=1)


def full(repeat=5):
    with tempfile.TemporaryDirectory() as folder:
        measure(generate(Path(folder), 60_000), repeat)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    full(parser.parse_args().repeat)


if __name__ == "__main__":
    main()
