"""Models are served from files and folders, of this machine and of a store, in the same way."""

from __future__ import annotations

import pytest

from rankine import LinearModel
from rankine.core import stores
from rankine.core.atomic import atomic_file
from rankine.core.errors import ModelError
from rankine.serve.metrics import Metrics
from rankine.serve.places import find_place
from rankine.serve.registry import Registry
from rankine.serve.reload import Reloader
from rankine.serve.server import Settings, load_models

OLD, NEW = LinearModel.from_weights([1.0]), LinearModel.from_weights([2.0, 3.0])
RULES = b"[[filter]]\nname = 'no hats'\nwhere = \"category == 'hats'\"\n"


@pytest.fixture(params=["disk", "store"])
def folder(request, tmp_path):
    if request.param == "disk":
        yield str(tmp_path)
        return
    filesystem = pytest.importorskip("fsspec").filesystem("memory")
    yield "memory://shop/models"
    filesystem.store.clear()


def write(path, content):
    with atomic_file(path) as file:
        file.write(content)


def digests(registry):
    return {name: served.digest for name, served in registry.current.models.items()}


def test_files_and_versions(folder):
    write(f"{folder}/a.rankine", b"old")
    write(f"{folder}/b.rankine", b"b")
    place, single = find_place(folder), find_place(f"{folder}/a.rankine")
    assert place.is_folder()
    assert place.files() == ["a.rankine", "b.rankine"]
    assert not single.is_folder()
    assert single.name == "a.rankine"
    for each in (place, single):
        assert each.existing(["b.rankine", "c"]) == {"b.rankine"}
        before = each.open("a.rankine")
        assert before.file.read() == b"old"
        assert each.open("a.rankine").version == before.version
    write(f"{folder}/a.rankine", b"newer")
    assert single.open("a.rankine").version != before.version
    with pytest.raises(FileNotFoundError):
        single.open("c")


@pytest.mark.parametrize("is_single", [True, False])
def test_a_changed_model_replaces_the_old_one(folder, is_single):
    path, registry = f"{folder}/shop.rankine", Registry()
    OLD.save(path)
    reloader = Reloader(path if is_single else folder, registry, Metrics())
    reloader.refresh()
    assert digests(registry) == {"shop": OLD.digest}
    write(path, b"half a model")
    reloader.refresh()
    assert digests(registry) == {"shop": OLD.digest}
    assert "shop" in registry.current.errors
    NEW.save(path)
    write(f"{folder}/shop.rules.toml", RULES)
    reloader.refresh()
    assert digests(registry) == {"shop": NEW.digest}
    assert "shop" in registry.current.rules
    assert not registry.current.errors


def test_a_store_that_cannot_be_read_changes_nothing(monkeypatch):
    filesystem = pytest.importorskip("fsspec").filesystem("memory")
    OLD.save("memory://shop/shop.rankine")
    registry = Registry()
    reloader = Reloader("memory://shop/shop.rankine", registry, Metrics())
    reloader.refresh()
    monkeypatch.setattr(stores, "N_ATTEMPTS", 1)

    def refuse(*_, **__):
        raise PermissionError("Forbidden")

    monkeypatch.setattr(type(filesystem), "info", refuse)
    reloader.refresh()
    assert digests(registry) == {"shop": OLD.digest}
    assert any("denied" in reason for reason in registry.current.errors.values())
    monkeypatch.undo()
    reloader.refresh()
    assert not registry.current.errors
    filesystem.store.clear()


def test_a_model_that_does_not_exist_is_named(folder):
    with pytest.raises(ModelError) as caught:
        load_models(Settings(f"{folder}/none.rankine"))
    assert caught.value.file == f"{folder}/none.rankine"
    assert "does not exist" in caught.value.reason or "No such file" in caught.value.reason
