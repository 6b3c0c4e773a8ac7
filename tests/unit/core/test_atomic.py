import os
import stat

import pytest

from rankine.core.atomic import atomic_file


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


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    with atomic_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


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
