"""``rankine sort`` from the outside."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cli


def rankine(*arguments, stdin=b""):
    command = [
        sys.executable,
        "-c",
        "from rankine.cli.main import run; run()",
        *map(str, arguments),
    ]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=100)


def test_sort_from_pipe_to_pipe():
    done = rankine("sort", "-", "-", stdin=b"1 qid:2 1:1\n0 qid:1 1:2\n2 qid:2 1:3\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"0 qid:1 1:2\n1 qid:2 1:1\n2 qid:2 1:3\n"
    assert b"3 rows of 2 queries" in done.stderr


def test_json_is_one_line(tmp_path):
    done = rankine("sort", "-", tmp_path / "o.txt", "--json", stdin=b"1 qid:2 1:1\n")
    assert json.loads(done.stdout) == {"rows": 1, "queries": 1, "runs": 1, "skipped": 0}
    assert done.stdout.count(b"\n") == 1


def test_bad_input_is_one_line_and_exit_code_2(tmp_path):
    done = rankine("sort", "-", tmp_path / "o.txt", stdin=b"1 qid:2 1:x\n")
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"<stdin>:1:11" in done.stderr
    assert not (tmp_path / "o.txt").exists()
