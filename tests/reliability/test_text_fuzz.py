"""Differential fuzzing: the fast reader and the slow one agree, or both refuse at the same line."""

from __future__ import annotations

import io
import os
import random

import numpy as np
import pytest
from scipy import sparse

import rankine
from rankine.core.errors import DataError, EmptyDataError
from reference import slow_reader
from reference.mutants import mutant

#: A longer run sets RANKINE_FUZZ_CASES.
CASES = int(os.environ.get("RANKINE_FUZZ_CASES", "10000"))
SEED = int(os.environ.get("RANKINE_FUZZ_SEED", "20261115"))

pytestmark = pytest.mark.reliability


def expected(data, settings):
    try:
        return slow_reader.read(data, **settings), None
    except slow_reader.RefusedError as error:
        return None, error.line


def assert_same(found, rows):
    matrix = sparse.csr_matrix(found.X)
    assert found.n_rows == len(rows)
    assert found.qid.tolist() == [row.qid for row in rows]
    assert found.y.tobytes() == np.array([row.label for row in rows]).tobytes()
    docids = [""] * len(rows) if found.docid is None else found.docid.tolist()
    for k, row in enumerate(rows):
        line = matrix[k]
        stored = dict(zip(line.indices.tolist(), line.data.tolist(), strict=True))
        assert {c: v for c, v in stored.items() if v} == {
            c: v for c, v in row.features.items() if v
        }
        assert all(np.float64(row.features[c]).tobytes() == np.float64(v).tobytes()
                   for c, v in stored.items() if v)  # fmt: skip
        if row.docid.isascii() and row.docid.decode().isprintable():
            assert docids[k] == row.docid.decode()


def outcome(data, settings, chunk_bytes):
    try:
        return rankine.load(io.BytesIO(data), chunk_bytes=chunk_bytes, dense=False, **settings)
    except DataError as error:
        return error


def check(data, settings, chunk_bytes):
    rows, line = expected(data, settings)
    found = outcome(data, settings, chunk_bytes)
    if isinstance(found, EmptyDataError):
        assert rows == []
    elif isinstance(found, DataError):
        assert rows is None, f"refused a good file: {found}"
        assert found.line == line or (found.line is None and found.code == "file-kind")
        assert found.reason
        assert found.fix
    else:
        assert rows is not None, f"accepted a file that is bad at line {line}"
        assert_same(found, rows)


def test_mutants_are_read_exactly_or_refused_at_the_right_line():
    rng = random.Random(SEED)
    seen = {True: 0, False: 0}
    for case in range(CASES):
        data = mutant(rng)
        settings = {
            "base": rng.choice((0, 1)),
            "qid_type": rng.choice(("int", "int", "str")),
            "missing": rng.choice(("error", "zero")),
        }
        try:
            check(data, settings, rng.choice((1, 7, 64, 4096)))
        except AssertionError as error:
            raise AssertionError(f"case {case} {settings} {data!r}: {error}") from error
        seen[expected(data, settings)[0] is None] += 1
    assert min(seen.values()) > CASES // 20, "the mutants no longer exercise both outcomes"
