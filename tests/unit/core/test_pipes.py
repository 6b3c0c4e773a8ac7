"""Pipes that nothing writes to end with an error."""

import os
import socket
import subprocess
import sys

import pytest

import rankine
from rankine import LinearModel
from rankine.core import pipes
from rankine.core.errors import DataError, FileKindError

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are of POSIX"),
    pytest.mark.timeout(30),
]
LINES = b"1 qid:1 1:1\n0 qid:1 1:0\n"


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    monkeypatch.setattr(pipes, "WAIT_SECONDS", 0.1)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize(
    "read", [rankine.load, lambda path: list(rankine.scan(path, n_features=1))]
)
def test_a_pipe_without_a_writer_is_an_error(pipe, read):
    with pytest.raises(DataError, match=r"no program wrote to this pipe within 0.1 s") as caught:
        read(pipe)
    assert caught.value.file == str(pipe)


def test_a_program_that_has_opened_a_pipe_may_take_longer(pipe):
    code = "import sys, time; file = open(sys.argv[1], 'wb'); time.sleep(0.5); file.write(%r)"
    with subprocess.Popen([sys.executable, "-c", code % LINES, pipe]) as writer:
        os.close(os.open(pipe, os.O_RDONLY))  # wait until it has opened the pipe
        assert rankine.load(pipe).n_rows == 2
    assert writer.returncode == 0


def test_sockets_are_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for read in (rankine.load, LinearModel.load):
            with pytest.raises(FileKindError) as caught:
                read(tmp_path / "socket")
            assert caught.value.file == str(tmp_path / "socket")
