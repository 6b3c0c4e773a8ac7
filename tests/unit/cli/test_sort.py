"""``rankine sort`` from the outside."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli.main import app, find_commands
from rankine.data.sort import SortReport

find_commands()

pytestmark = pytest.mark.cli


def run_process(*arguments, stdin=b""):
    command = [
        sys.executable,
        "-c",
        "from rankine.cli.main import run; run()",
        *map(str, arguments),
    ]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=100)


def test_sort_from_pipe_to_pipe():
    done = run_process("sort", "-", "-", stdin=b"1 qid:2 1:1\n0 qid:1 1:2\n2 qid:2 1:3\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"0 qid:1 1:2\n1 qid:2 1:1\n2 qid:2 1:3\n"
    assert b"3 rows of 2 queries" in done.stderr


def test_json_is_one_line(tmp_path):
    done = run_process("sort", "-", tmp_path / "o.txt", "--json", stdin=b"1 qid:2 1:1\n")
    assert json.loads(done.stdout) == {
        "rows": 1,
        "queries": 1,
        "runs": 1,
        "skipped": 0,
        "excluded_rows": 0,
        "excluded_files": 0,
    }
    assert done.stdout.count(b"\n") == 1


def test_bad_input_is_one_line_and_exit_code_2(tmp_path):
    done = run_process("sort", "-", tmp_path / "o.txt", stdin=b"1 qid:2 1:x\n")
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"<stdin>:1:11" in done.stderr
    assert not (tmp_path / "o.txt").exists()


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, rankine.core.errors.RankineError):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (SortReport(1234, 5, 1, 0), "1,234 rows of 5 queries\n"),
        (SortReport(2, 1, 2, 0), "2 rows of 1 queries, merged from 2 sorted parts on disk\n"),
        (SortReport(2, 1, 1, 1), "2 rows of 1 queries, 1 bad rows skipped\n"),
    ],
)
def test_sorting_prints_counts(monkeypatch, report, told):
    asked = {}

    def sort_file(source, target, **options):
        asked.update(options, source=source, target=target)
        return report

    monkeypatch.setattr("rankine.data.sort.sort_file", sort_file)
    done = call("sort", "a.txt", "b.txt", "out.txt", "--memory", "9", "--query", "s")
    assert done.stderr == told
    assert done.stdout == ""
    assert (asked["source"], asked["target"]) == (["a.txt", "b.txt"], "out.txt")
    assert (asked["max_memory"], asked["query"]) == (9 * 2**20, "s")
    done = call("sort", "a.txt", "out.txt", "--json")
    assert (json.loads(done.stdout)["rows"], done.stderr) == (report.rows, "")
    assert asked["max_memory"] == 768 * 2**20
