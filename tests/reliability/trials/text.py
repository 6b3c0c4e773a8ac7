"""Read mutated LETOR text with the fast reader and with a slow one, which must agree.

If a file is refused, both must refuse it at the same line. Every mutant is loaded or streamed,
plain or compressed, in chunks of one byte or more.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma

import numpy as np
import pyarrow as pa

import rankine
from corpus.found_text import FOUND
from rankine.core.errors import DataError, EmptyDataError
from reference import slow_reader
from reference.mutants import mutant
from reliability.harness.outcome import Job, Outcome

PACKERS = {
    "plain": bytes,
    "gz": lambda data: gzip.compress(data, 1, mtime=0),
    "bz2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}
#: Frequency of each compression; xz and bz2 take longer than the reading.
_PACKING = ["plain"] * 32 + ["gz"] * 4 + ["zst"] * 2 + ["bz2", "xz"]


class Wrong(Exception):  # noqa: N818 - a verdict, not an error
    """Raised if the reader was wrong: (fault, description)."""


def expected(data, settings, way):
    """Return the rows, or the lines at which an error is correct."""
    try:
        rows = slow_reader.read(data, skip=way == "skip", **settings)
    except slow_reader.RefusedError as error:
        rows, lines = None, {error.line}
        if way == "scan":  # a query that comes back before the bad line may be seen first
            before = b"\n".join(data.split(b"\n")[: error.line - 1]) + b"\n"
            lines.add(slow_reader.comes_back(slow_reader.read(before, **settings)))
        return rows, lines
    if way == "scan" and (line := slow_reader.comes_back(rows)) is not None:
        return None, {line}
    return rows, set()


def bits(value):
    return np.float64(value).tobytes()


def compare(found, rows):
    """Raise Wrong if the datasets differ."""
    wanted = (len(rows), [row.qid for row in rows], np.array([row.label for row in rows]).tobytes())
    got = (found.n_rows, found.qid.tolist(), found.y.tobytes())
    if got != wanted:
        raise Wrong("misread", f"labels or queries {got} instead of {wanted}")
    matrix = found.X
    indptr, indices, values = matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()
    docids = [""] * len(rows) if found.docid is None else found.docid.tolist()
    for k, row in enumerate(rows):
        span = slice(indptr[k], indptr[k + 1])
        stored = {c: bits(v) for c, v in zip(indices[span], values[span], strict=True) if v}
        real = {c: bits(v) for c, v in row.features.items() if v}
        if stored != real:
            raise Wrong("misread", f"row {k} is {stored} instead of {real}")
        shown = row.docid.isascii() and row.docid.decode().isprintable()
        if shown and docids[k] != row.docid.decode():
            raise Wrong("misread", f"docid {docids[k]!r} instead of {row.docid!r}")


def read(data, settings, way, chunk, folder):
    """Read a file with rankine; return a dataset or the error."""
    try:
        if way == "scan":
            path = folder / "mutant"
            path.write_bytes(data)
            blocks = rankine.scan(path, chunk_bytes=chunk, block_rows=2, dense=False, **settings)
            return rankine.data.dataset.concat(list(blocks))
        if way == "skip":
            settings = {**settings, "on_bad_row": "skip"}
        return rankine.load(io.BytesIO(data), chunk_bytes=chunk, dense=False, **settings)
    except DataError as error:
        return error


def read_and_compare(data, settings, way="load", packing="plain", chunk=64, folder=None):
    """Read one file with both readers; return the result or raise Wrong."""
    rows, lines = expected(data, settings, way)
    found = read(PACKERS[packing](data), settings, way, chunk, folder)
    if isinstance(found, EmptyDataError):
        if rows != []:
            raise Wrong("misread", "rows were called empty")
        return "empty"
    if isinstance(found, DataError):
        if rows is not None and not (way == "skip" and found.code == "file-kind"):
            raise Wrong("misread", f"refused a good file: {found}")
        placed = found.line in lines or (found.line is None and found.code == "file-kind")
        if not (placed and found.reason and found.fix and found.file):
            raise Wrong("misplaced", f"{found} instead of line {lines}")
        return "refused"
    if rows is None:
        raise Wrong("accepted", f"bad at line {lines}")
    compare(found, rows)
    if way == "skip":
        kept = {row.line for row in rows}
        texts = data.split(b"\n")
        bad = sum(_is_row(texts, k) and k + 1 not in kept for k in range(len(texts)))
        if found.read_counts.get("skipped_rows", 0) != bad:
            raise Wrong("misread", f"{found.read_counts} for {bad} bad lines")
    return "read"


def _is_row(texts, k):
    """Return whether a line has more than blanks and a comment (a lone CR is more)."""
    last = k == len(texts) - 1
    text = texts[k] if last else texts[k].removesuffix(b"\r")
    return bool(text.partition(b"#")[0].strip(b" \t")) or b"\r" in text


def draw(rng):
    """Draw a mutant and a way to read it."""
    data = mutant(rng)
    settings = {
        "base": rng.choice((0, 1)),
        "qid_type": rng.choice(("int", "int", "str")),
    }
    way = rng.choice(("load",) * 7 + ("scan", "skip"))
    if way == "scan" and rng.random() < 0.4:
        data = shuffled(rng)
    return data, settings, way, rng.choice(_PACKING), rng.choice((1, 7, 64, 4096))


def shuffled(rng):
    """Draw valid rows of a few queries in any order; a query may appear again later."""
    ids = rng.choice(([1, 2, 3], [3, 2, 1], [5, -7, 9223372036854775807], [0, 8, 4]))
    lines = [b"%d qid:%d 1:%d\n" % (k % 2, ids[k // 2], k) for k in range(6)]
    for _ in range(rng.randrange(3)):
        a, b = rng.sample(range(6), 2)
        lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def trial(job: Job) -> Outcome:
    """Read mutants; the first batch also reads files that failed in earlier runs."""
    outcome = Outcome()
    if job.first == 0:
        for case in FOUND:
            try_mutant(outcome, case, job.folder, f"found before: {case!r}")
    for case, rng in job.cases(outcome):
        drawn = draw(rng)
        try_mutant(outcome, drawn, job.folder, f"{job.name(case)}: {drawn!r}")
    return outcome


def try_mutant(outcome, drawn, folder, message):
    """Read one mutant and count the result."""
    try:
        outcome.counts[read_and_compare(*drawn, folder)] += 1
    except Wrong as wrong:
        outcome.fail(wrong.args[0], f"{message}: {wrong.args[1]}")
    except Exception as error:  # anything else is a crash to its user
        outcome.fail("crashes", f"{message}: {error!r}")


def warm() -> None:
    """Load the compiled reader before children are forked."""
    rankine.load(io.BytesIO(b"1 qid:1 1:1\n"), dense=False)
