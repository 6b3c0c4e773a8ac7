"""New model files under a running server: taken whole, or not at all."""

import os
import signal
import threading
import time

import msgspec
import numpy as np
import pytest

from integration.serve.serve_tools import make_model, wait_for
from rankine import LinearModel, ModelBundle
from rankine.core.errors import ModelError
from rankine.model.weights import Probe, Probes
from rankine.serve.metrics import Metrics
from rankine.serve.registry import Registry
from rankine.serve.reload import Reloader
from rankine.serve.server import Settings, load_models


def replace_file(path, data):
    temporary = path.with_name(".new")
    temporary.write_bytes(data)
    temporary.replace(path)


@pytest.fixture
def watched(tmp_path):
    registry, metrics = Registry(), Metrics()
    make_model(0).save(tmp_path / "shop.rankine")
    reloader = Reloader(tmp_path, registry, metrics)
    reloader.refresh()
    return tmp_path, registry, reloader, metrics


def served(registry):
    return {name: one.digest for name, one in registry.current.models.items()}


def reloads(metrics):
    families = {family.name: family for family in metrics.registry.collect()}
    return {one.labels["result"]: one.value for one in families["rankine_reloads"].samples}


def test_new_changed_and_deleted_files(watched):
    folder, registry, reloader, metrics = watched
    assert served(registry) == {"shop": make_model(0).digest}
    make_model(1).save(folder / "shop.rankine")
    ModelBundle.from_weights({"t": [1.0]}).save(folder / "topics.rankine")
    reloader.refresh()
    assert served(registry)["shop"] == make_model(1).digest
    assert set(served(registry)) == {"shop", "topics"}
    (folder / "shop.rankine").unlink()
    reloader.refresh()
    assert "shop" in served(registry), "a file may be gone for a moment while it is replaced"
    reloader.refresh()
    assert set(served(registry)) == {"topics"}
    assert reloads(metrics) == {"loaded": 3, "dropped": 1}


def test_files_are_opened_by_path_where_a_folder_cannot_be_held(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "supports_dir_fd", set())
    make_model(0).save(tmp_path / "shop.rankine")
    reloader = Reloader(tmp_path, registry := Registry(), Metrics())
    reloader.refresh()
    assert served(registry) == {"shop": make_model(0).digest}


def test_files_are_opened_where_the_system_has_no_such_flags(tmp_path, monkeypatch):
    for flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY"):
        monkeypatch.delattr(os, flag)
    make_model(0).save(tmp_path / "shop.rankine")
    for path in (tmp_path, tmp_path / "shop.rankine"):
        reloader = Reloader(path, registry := Registry(), Metrics())
        reloader.refresh()
        assert served(registry) == {"shop": make_model(0).digest}


def test_an_unchanged_file_is_not_read_again(watched):
    _, registry, reloader, metrics = watched
    before = registry.current
    for _ in range(3):
        reloader.refresh(retry=True)
    assert registry.current is before
    assert reloads(metrics) == {"loaded": 1}


def damaged(kind):
    data = make_model(2).to_bytes()
    if kind == "cut":
        return data[:-9]
    if kind == "flipped":
        return data[:-1] + bytes([data[-1] ^ 1])
    if kind == "empty":
        return b""
    if kind == "pickle":
        return b"\x80\x04K\x01."
    rows = (Probe(indices=(0,), values=(1.0,)),)
    return make_model(2, probes=Probes(rows=rows, scores=(1e6,))).to_bytes()


@pytest.mark.parametrize("kind", ["cut", "flipped", "empty", "pickle", "probes"])
def test_a_bad_file_changes_nothing_and_is_reported(watched, kind):
    folder, registry, reloader, metrics = watched
    before = served(registry)
    (folder / "shop.rankine").write_bytes(damaged(kind))
    reloader.refresh()
    reloader.refresh()
    assert served(registry) == before
    assert reloads(metrics)["refused"] == 1
    (entry,) = registry.entries()
    assert entry.digest == before["shop"]
    assert entry.error
    assert str(folder) not in entry.error
    make_model(3).save(folder / "shop.rankine")
    reloader.refresh()
    assert served(registry) == {"shop": make_model(3).digest}
    assert registry.entries()[0].error is None


def test_every_prefix_of_a_copy_is_refused(watched):
    folder, registry, reloader, _ = watched
    before, data = served(registry), make_model(6).to_bytes()
    for size in range(0, len(data), 37):
        (folder / "shop.rankine").write_bytes(data[:size])
        reloader.refresh()
        assert served(registry) == before
    (folder / "shop.rankine").write_bytes(data)
    reloader.refresh()
    assert served(registry) == {"shop": make_model(6).digest}


def test_two_files_of_one_name_and_a_folder_that_disappears(watched):
    folder, registry, reloader, _ = watched
    make_model(7).save(folder / "shop.safetensors")
    make_model(8).save(folder / "zoo.rankine")
    both = {"shop": make_model(0).digest, "zoo": make_model(8).digest}
    reloader.refresh()
    assert served(registry) == both
    assert "two files" in registry.entries()[0].error
    folder.rename(folder.with_name("elsewhere"))
    reloader.refresh()
    reloader.refresh()
    assert served(registry) == both


@pytest.mark.reliability
def test_racing_operations_never_serve_anything_wrong(watched):
    folder, registry, reloader, _ = watched
    good = {make_model(seed).digest: make_model(seed).to_bytes() for seed in range(5)}
    rng = np.random.default_rng(0)
    stop = threading.Event()
    wrong = []

    def look():
        while not stop.is_set():
            reloader.refresh(retry=True)

    def check():
        while not stop.is_set():
            now = registry.current.models.values()
            wrong.extend(one.digest for one in now if one.model.to_bytes() != good.get(one.digest))

    threads = [threading.Thread(target=work) for work in (look, look, check)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        data = good[list(good)[rng.integers(5)]]
        path = folder / f"{'ab'[rng.integers(2)]}.rankine"
        kind = rng.integers(4)
        if kind == 0:
            path.unlink(missing_ok=True)
        elif kind == 1 and path.exists():
            path.rename(folder / f"{'cd'[rng.integers(2)]}.rankine")
        elif kind == 2:
            path.write_bytes(data[: rng.integers(len(data))])
        else:
            replace_file(path, data)
    time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_hang_up_retries_at_once(start, tmp_path):
    make_model(0).save(tmp_path / "shop.rankine")
    server = start(str(tmp_path), "--reload-every", "600")
    replace_file(tmp_path / "shop.rankine", b"nonsense")
    os.kill(server.process.pid, signal.SIGHUP)
    entry = wait_for(lambda: entry_with_error(server))
    assert entry["digest"] == make_model(0).digest
    assert server.metric('model_error{model="shop"}') == 1
    replace_file(tmp_path / "shop.rankine", make_model(8).to_bytes())
    os.kill(server.process.pid, signal.SIGHUP)
    wait_for(lambda: server.json("GET", "/v1/models/shop")[1]["digest"] == make_model(8).digest)
    assert "nonsense" not in server.stop()


def entry_with_error(server):
    _, entry = server.json("GET", "/v1/models/shop")
    return entry if entry["error"] else None


def test_a_single_file_is_watched_too(start, tmp_path):
    path = tmp_path / "only.rankine"
    make_model(0).save(path)
    server = start(str(path), "--reload-every", "0.05")
    make_model(1).save(path)
    wait_for(lambda: server.json("GET", "/v1/models/only")[1]["digest"] == make_model(1).digest)
    path.unlink()
    time.sleep(0.3)
    status, reply = server.json("POST", "/v1/score", {"items": [{"features": {}}]})
    assert (status, reply["digest"]) == (200, make_model(1).digest)


def test_nothing_to_serve_is_an_error(tmp_path):
    with pytest.raises(ModelError, match="the folder is empty"):
        load_models(Settings(tmp_path))
    (tmp_path / "bad.rankine").write_bytes(damaged("cut"))
    with pytest.raises(ModelError, match="digest"):
        load_models(Settings(tmp_path))
    with pytest.raises(ModelError, match="no model to serve"):
        load_models(Settings(tmp_path / "absent.rankine"))


def test_a_snapshot_is_never_changed(watched):
    folder, registry, reloader, _ = watched
    before = registry.current
    copy = dict(before.models)
    LinearModel.from_weights([1.0]).save(folder / "other.rankine")
    reloader.refresh()
    assert dict(before.models) == copy
    assert msgspec.to_builtins(registry.entries())[0]["name"] == "other"


def test_a_file_that_cannot_be_opened_hides_no_other(watched):
    folder, registry, reloader, _ = watched
    (folder / "a.rankine").symlink_to(folder / "shop.rankine")
    make_model(3).save(folder / "zoo.rankine")
    reloader.refresh()
    assert served(registry)["zoo"] == make_model(3).digest
    errors = {entry.name: entry.error for entry in registry.entries()}
    assert "symbolic link" in errors["a"]


def test_only_files_of_models_are_looked_at(watched):
    folder, registry, reloader, _ = watched
    (folder / "zoo.rankine").mkdir()
    for name in ("a.rankine.tmp", "b.rankine~", ".c.rankine", "d e.rankine"):
        (folder / name).write_bytes(b"nonsense")
    for name in ("shop.v2.rankine", "z", "zz.rankine"):
        make_model(1).save(folder / name)
    reloader.refresh()
    assert set(served(registry)) == {"shop", "shop.v2", "z", "zz"}
    assert registry.current.errors == {}
    with pytest.raises(ModelError, match="gives no model name"):
        Reloader(folder / "d e.rankine", Registry(), Metrics()).refresh()
    link = folder.with_name("link.rankine")
    link.symlink_to(folder / "shop.rankine")
    single = Reloader(link, Registry(), Metrics())
    single.refresh()
    assert set(served(single.registry)) == {"link"}
    link.unlink()
    for _ in range(3):
        single.refresh()
    assert set(served(single.registry)) == {"link"}
    assert "cannot be opened: No such file" in single.registry.current.errors["link"]


def test_a_file_may_be_missing_in_one_listing_repeatedly(watched):
    folder, registry, reloader, metrics = watched
    path, data = folder / "shop.rankine", make_model(0).to_bytes()
    for _ in range(3):
        path.unlink()
        reloader.refresh()
        assert set(served(registry)) == {"shop"}
        path.write_bytes(data)
        reloader.refresh()
    path.unlink()
    (folder / "bad.rankine").write_bytes(b"nonsense")
    reloader.refresh()
    assert "bad" in registry.current.errors
    (folder / "bad.rankine").unlink()
    reloader.refresh()
    assert (served(registry), set(registry.current.errors)) == ({}, {"bad"})
    reloader.refresh()
    assert registry.current.errors == {}
    assert reloads(metrics)["dropped"] == 2
    path.write_bytes(data)
    reloader.refresh()
    assert set(served(registry)) == {"shop"}


def test_a_refused_file_is_retried_on_request(watched, monkeypatch):
    folder, registry, reloader, metrics = watched
    make_model(1).save(folder / "shop.rankine")
    for error, reason in (
        (MemoryError(), "fit into memory"),
        (OSError(5, "broken"), "read: broken"),
    ):

        def fail(*_, error=error):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr("rankine.serve.reload.decode_any", fail)
            reloader.refresh(retry=True)
        assert reason in registry.current.errors["shop"]
    monkeypatch.setattr("rankine.serve.reload._MAX_FILE_BYTES", 10)
    reloader.refresh(retry=True)
    assert "larger than 10 bytes [" in registry.current.errors["shop"]
    size = (folder / "shop.rankine").stat().st_size
    monkeypatch.setattr("rankine.serve.reload._MAX_FILE_BYTES", size)
    reloader.refresh()
    assert served(registry)["shop"] == make_model(0).digest
    reloader.refresh(retry=True)
    assert served(registry)["shop"] == make_model(1).digest
    assert reloads(metrics) == {"loaded": 2, "refused": 3}


def test_an_unreadable_folder_is_reported_once(watched, monkeypatch, caplog):
    _, registry, reloader, metrics = watched
    with monkeypatch.context() as patch:

        def fail(_):
            raise OSError(13, "forbidden")

        patch.setattr(os, "listdir", fail)
        reloader.refresh()
        reloader.refresh()
    assert registry.current.errors == {"": "the models cannot be listed: forbidden"}
    assert reloads(metrics)["refused"] == 1
    assert "model folder: the models cannot be listed" in caplog.text
    assert set(served(registry)) == {"shop"}
    reloader.refresh()
    assert registry.current.errors == {}


def test_every_topic_that_is_tested_must_hold(tmp_path, monkeypatch):
    proven = []
    monkeypatch.setattr(
        "rankine.serve.registry.ServedScorer.self_test", lambda one: proven.append(one.name)
    )
    topics = {f"t{k}": [1.0] for k in range(12)}
    ModelBundle.from_weights(topics).save(tmp_path / "b.rankine")
    make_model(0).save(tmp_path / "m.rankine")
    Reloader(tmp_path, Registry(), Metrics()).refresh()
    assert proven == [*(f"b/t{k}" for k in range(8)), "m"]


def test_the_thread_goes_on_after_an_exception(watched, monkeypatch, caplog):
    _, _, reloader, _ = watched
    looks = []

    def refresh(*, retry):
        looks.append(retry)
        if len(looks) == 1:
            raise ZeroDivisionError

    monkeypatch.setattr(reloader, "refresh", refresh)
    reloader.start(600.0)
    for count in (1, 2):
        reloader.wake()
        wait_for(lambda count=count: len(looks) == count)
    reloader.stop()
    assert not reloader._thread.is_alive()
    assert looks == [True, True]
    assert "the check for new models failed" in caplog.text
    often = Reloader(".", Registry(), Metrics())
    monkeypatch.setattr(often, "refresh", refresh)
    often.start(0.01)
    wait_for(lambda: len(looks) > 4)
    often.stop()
    assert looks[2:5] == [False] * 3
    Reloader(".", Registry(), Metrics()).stop()


def test_changes_are_logged(watched, caplog):
    folder, _, reloader, _ = watched
    caplog.set_level("INFO", "rankine.serve")
    make_model(1).save(folder / "shop.rankine")
    make_model(2).save(folder / "new.rankine")
    reloader.refresh()
    assert f"model shop replaced, digest {make_model(1).digest[:12]}" in caplog.text
    assert "model new loaded, digest" in caplog.text


PIN = b"[[pin]]\nname = 'campaign'\nwhere = 'x > 1'\nposition = 1\n"


def test_rules_beside_a_model_are_loaded_changed_and_dropped(watched):
    folder, registry, reloader, _ = watched
    rules = folder / "shop.rules.toml"
    replace_file(rules, PIN)
    reloader.refresh()
    assert registry.current.rules["shop"].names == ("campaign",)
    assert [entry.rules for entry in registry.entries()] == [["campaign"]]
    replace_file(rules, PIN + b"[[pins]]\n")
    reloader.refresh()
    assert registry.current.rules["shop"].names == ("campaign",), "the old rules stay"
    assert "pins" in registry.current.errors["shop.rules.toml"]
    replace_file(rules, PIN.replace(b"campaign", b"sale"))
    reloader.refresh()
    assert registry.current.rules["shop"].names == ("sale",)
    assert not registry.current.errors
    rules.unlink()
    reloader.refresh()
    assert "shop" in registry.current.rules
    reloader.refresh()
    assert not registry.current.rules
    assert set(served(registry)) == {"shop"}


def test_a_new_model_waits_for_rules_that_can_be_read(tmp_path):
    path = tmp_path / "shop.rankine"
    make_model(0).save(path)
    (tmp_path / "shop.rules.toml").write_text("[[pins]]")
    with pytest.raises(ModelError, match="pins"):
        load_models(Settings(path))
    (tmp_path / "shop.rules.toml").write_bytes(PIN)
    reloader = load_models(Settings(path))
    assert reloader.registry.current.rules["shop"].names == ("campaign",)
    assert set(served(reloader.registry)) == {"shop"}
