"""A changed file is recognised by device, inode, size and time."""

import os
import time

import pytest

from rankine import LinearModel
from rankine.serve.metrics import Metrics
from rankine.serve.registry import Registry
from rankine.serve.reload import Reloader


@pytest.mark.parametrize("change", ["inode", "time", "size"])
def test_each_part_of_the_version_shows_a_change(tmp_path, change):
    path, registry = tmp_path / "shop", Registry()
    reloader = Reloader(tmp_path, registry, Metrics())
    old, new = LinearModel.from_weights([1.0]), LinearModel.from_weights([2.0])
    if change == "size":
        new = LinearModel.from_weights([2.0, 3.0])
    path.write_bytes(old.to_bytes())
    before = path.stat()
    reloader.refresh()
    assert registry.current.models["shop"].digest == old.digest
    if change == "inode":
        (tmp_path / ".new").write_bytes(new.to_bytes())
        (tmp_path / ".new").replace(path)
    else:
        path.write_bytes(new.to_bytes())
    later = int(change == "time")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + later))
    after = path.stat()
    assert (after.st_ino != before.st_ino) == (change == "inode")
    assert (after.st_size != before.st_size) == (change == "size")
    reloader.refresh()
    assert registry.current.models["shop"].digest == new.digest
    assert not registry.current.errors


def test_a_very_long_interval_waits_for_a_request(tmp_path):
    registry = Registry()
    reloader = Reloader(tmp_path, registry, Metrics())
    reloader.start(1e308)
    try:
        LinearModel.from_weights([1.0]).save(tmp_path / "shop")
        reloader.wake()
        end = time.monotonic() + 30
        while "shop" not in registry.current.models and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        reloader.stop()
    assert "shop" in registry.current.models
