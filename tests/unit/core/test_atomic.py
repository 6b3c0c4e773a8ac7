import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rankine.core import pipes
from rankine.core.atomic import atomic_file
from rankine.core.errors import DataError, FileKindError


def test_a_complete_file_replaces_the_old_one(tmp_path):
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with atomic_file(target) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.bin"]


def test_an_error_keeps_the_old_file_and_removes_the_new_one(tmp_path):
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_file(target) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert target.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.bin"]


def test_a_new_file_appears_only_when_it_is_complete(tmp_path):
    target = tmp_path / "out.bin"
    with pytest.raises(KeyboardInterrupt), atomic_file(target) as file:
        file.write(b"half")
        assert not target.exists()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_flushed_then_renamed_then_the_folder_is_flushed(tmp_path, monkeypatch):
    calls, flush, rename = [], os.fsync, os.replace

    def fsync(descriptor):
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        flush(descriptor)

    def replace(*names):
        calls.append("rename")
        rename(*names)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with atomic_file(tmp_path / ("x" * 250)) as file:
        file.write(b"new")
    assert calls == ["file", "rename", "folder"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_system_call_keeps_the_old_file(tmp_path, monkeypatch, call):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"), atomic_file(target) as file:
        file.write(b"new")
    assert target.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.bin"]


@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_is_replaced_and_its_file_unchanged(tmp_path, dangling):
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    if not dangling:
        real.write_bytes(b"old")
    with atomic_file(link) as file:
        file.write(b"new")
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"
    if dangling:
        assert not real.exists()
    else:
        assert real.read_bytes() == b"old"


@pytest.mark.skipif(os.name != "posix", reason="permissions are of POSIX")
def test_an_existing_file_keeps_its_permissions_and_a_new_one_follows_the_umask(tmp_path):
    target = tmp_path / "out.bin"
    before = os.umask(0o027)
    try:
        with atomic_file(target) as file:
            file.write(b"new")
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        for mode in (0o600, 0o400, 0o666, 0o644):
            target.chmod(mode)
            with atomic_file(target) as file:
                # Never readable by more than the old file, also before it is complete.
                (temporary,) = tmp_path.glob(".*.tmp")
                assert not stat.S_IMODE(temporary.stat().st_mode) & ~mode
                file.write(b"newer")
            assert stat.S_IMODE(target.stat().st_mode) == mode
    finally:
        os.umask(before)


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
def test_a_redirected_output_is_written_directly(tmp_path):
    code = (
        "from rankine.core.atomic import atomic_file\n"
        "with atomic_file('/dev/stdout') as file: file.write(b'through')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=out)
    assert (tmp_path / "out").read_bytes() == b"through"
    assert Path("/dev/stdout").is_symlink()


@pytest.mark.skipif(os.name != "posix", reason="pipes with names are of POSIX")
def test_a_pipe_is_written_directly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_file(pipe) as file:
        file.write(b"through")
    assert os.read(reading, 100) == b"through"
    os.close(reading)
    assert pipe.is_fifo()


@pytest.mark.skipif(os.name != "posix", reason="pipes with names are of POSIX")
def test_a_pipe_waits_for_a_reader_but_not_for_ever(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(pipes, "WAIT_SECONDS", 0.1)
    with pytest.raises(DataError, match="pipe"), atomic_file(pipe):
        pass
    monkeypatch.setattr(pipes, "WAIT_SECONDS", 60.0)
    with (tmp_path / "copy").open("wb") as copy:
        reader = subprocess.Popen(["cat", pipe], stdout=copy)
        with atomic_file(pipe) as file:
            # More than the buffer of a pipe: writing waits for the reader.
            file.write(b"x" * 200_000)
        assert reader.wait(60) == 0
    assert (tmp_path / "copy").stat().st_size == 200_000


@pytest.mark.skipif(os.name != "posix", reason="sockets with names are of POSIX")
def test_a_socket_and_a_folder_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(FileKindError), atomic_file("socket"):
            pass
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError), atomic_file("folder"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "socket"]
