"""Kernels are stored by the sources they come from, one file per signature, and shared safely."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numba
import pytest

from rankine.core.errors import ParameterError
from rankine.kernels import cache, sources
from rankine.kernels.cache import KernelCache

FLOAT = (numba.float64,)

needs_owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners of files")


def _add_one(x):
    return x + 1


def test_the_users_cache_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKINE_CACHE_DIR", str(tmp_path / "own"))
    assert cache.user_cache() == tmp_path / "own"
    monkeypatch.delenv("RANKINE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for platform, folder in (
        ("linux", "xdg/rankine"),
        ("win32", "local/rankine/cache"),
        ("darwin", "Library/Caches/rankine"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        assert cache.user_cache() == tmp_path / folder
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.user_cache() == tmp_path / ".cache" / "rankine"


@pytest.mark.parametrize("variable", ["RANKINE_CACHE_DIR", "XDG_CACHE_HOME"])
def test_an_empty_variable_counts_as_not_set_and_a_relative_one_warns(
    monkeypatch, tmp_path, variable
):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("RANKINE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv(variable, "")
    assert cache.user_cache() == tmp_path / ".cache" / "rankine"
    cache._warn_once.cache_clear()
    for value in (".", "cache", "../cache"):
        monkeypatch.setenv(variable, value)
        with pytest.warns(RuntimeWarning, match=f"{variable}='{value}' is ignored"):
            assert cache.user_cache() == tmp_path / ".cache" / "rankine"
        assert cache.user_cache() == tmp_path / ".cache" / "rankine"  # it warns once


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("RANKINE_CACHE_DIR", raising=False)
    for home in (no_home, lambda: Path("relative")):
        monkeypatch.setattr(Path, "home", home)
        assert cache.user_cache() is None
    kernels = KernelCache(_add_one)
    kernels.save_overload(FLOAT, _Result(2.0))
    assert kernels.load_overload(FLOAT, _Target()) is None


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The folder of bundled kernels and the user's, both empty."""
    monkeypatch.setenv("RANKINE_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setattr(cache, "_BUNDLED", tmp_path / "bundled")
    monkeypatch.setattr(sources, "_OUTSIDE_FILES", set())
    monkeypatch.setattr(sources, "_INTERACTIVE_SPECS", set())
    return tmp_path / "bundled", tmp_path / "own"


def test_files_are_named_by_the_digest_of_their_sources(folders):
    kernels = KernelCache(_add_one)
    locator = kernels._format.locator
    digest = sources.source_digest(sources.compiled_from(Path(__file__).resolve()))
    assert locator.folder_name == f"test_cache-{digest}"
    assert locator.get_source_stamp() == digest
    assert locator.get_disambiguator() == str(_add_one.__code__.co_firstlineno)
    assert kernels.cache_path == str(folders[1] / "kernels" / locator.folder_name)
    missing = str(folders[1] / "gone.py")
    assert cache._KernelLocator.from_function(_add_one, missing) is None


def test_each_signature_bounds_check_and_outside_file_has_files_of_its_own(folders, monkeypatch):
    kernels = KernelCache(_add_one)
    codegen = SimpleNamespace(magic_tuple=lambda: ("this", "machine"))
    names = set()
    for bounds_check, outside in ((0, set()), (1, set()), (0, {Path(__file__)})):
        monkeypatch.setattr(numba.config, "BOUNDSCHECK", bounds_check)
        monkeypatch.setattr(sources, "_OUTSIDE_FILES", outside)
        for signature in (FLOAT, (numba.int64,)):
            key = kernels._key(signature, codegen)
            paths = [kernels._file(folder, key) for folder in folders]
            folder_name = kernels._format.locator.folder_name
            assert [path.parent for path in paths] == [
                folder / "kernels" / folder_name for folder in folders
            ]
            assert len({path.name for path in paths}) == 1
            names.add(paths[0].name)
    assert len(names) == 6


class _Result(NamedTuple):
    """A compiled function, as far as saving needs one."""

    value: float
    library: object = SimpleNamespace(has_dynamic_globals=False)
    lifted: tuple = ()
    fndesc: object = SimpleNamespace(qualname="_add_one")
    codegen: object = SimpleNamespace(magic_tuple=lambda: ("this", "machine"))

    def _reduce(self):
        return (self.value,)


class _Target:
    """Numba's target context, as far as loading needs one."""

    def refresh(self):
        pass

    def codegen(self):
        return SimpleNamespace(magic_tuple=lambda: ("this", "machine"))


@pytest.fixture
def kernels(folders, monkeypatch):
    kernels = KernelCache(_add_one)
    monkeypatch.setattr(kernels._format, "rebuild", lambda _target, payload: payload)
    return kernels


def test_a_saved_kernel_is_loaded_for_its_signature_only(kernels, folders):
    kernels.save_overload(FLOAT, _Result(2.0))
    assert kernels.load_overload(FLOAT, _Target()) == (2.0,)
    assert kernels.load_overload((numba.int64,), _Target()) is None
    assert list(folders[1].rglob("*.nbc"))
    kernels.flush()
    assert kernels.load_overload(FLOAT, _Target()) == (2.0,)


def test_bundled_kernels_come_first(kernels, folders):
    kernels.save_overload(FLOAT, _Result(2.0))
    folders[1].rename(folders[0])
    assert kernels.load_overload(FLOAT, _Target()) == (2.0,)
    kernels.save_overload(FLOAT, _Result(3.0))
    assert kernels.load_overload(FLOAT, _Target()) == (2.0,)


def test_a_disabled_cache_neither_loads_nor_saves(kernels, folders):
    kernels.disable()
    kernels.save_overload(FLOAT, _Result(2.0))
    assert not list(folders[1].rglob("*.nbc"))
    kernels.enable()
    kernels.save_overload(FLOAT, _Result(2.0))
    kernels.disable()
    assert kernels.load_overload(FLOAT, _Target()) is None


def test_damaged_files_are_ignored_and_written_again(kernels, folders, monkeypatch):
    kernels.save_overload(FLOAT, _Result(2.0))
    (file,) = folders[1].rglob("*.nbc")
    good = file.read_bytes()
    # Nothing is unpickled unless the digest fits.
    loads = []
    monkeypatch.setattr(
        cache.pickle, "loads", lambda data, loads=loads: loads.append(data) or (2.0,)
    )
    damaged = [good[:n] for n in range(len(good))]
    damaged += [good[:n] + bytes([good[n] ^ 1]) + good[n + 1 :] for n in range(len(good))]
    for content in (*damaged, good + b"x", b"\x80\x04N."):
        file.write_bytes(content)
        assert kernels.load_overload(FLOAT, _Target()) is None
    assert not loads
    kernels.save_overload(FLOAT, _Result(2.0))
    assert file.read_bytes() == good
    assert kernels.load_overload(FLOAT, _Target()) == (2.0,)


def test_a_kernel_of_an_installation_with_other_modules_is_compiled_again(kernels, monkeypatch):
    def rebuild(_target, _payload):
        raise ImportError("no such module")

    kernels.save_overload(FLOAT, _Result(2.0))
    monkeypatch.setattr(kernels._format, "rebuild", rebuild)
    assert kernels.load_overload(FLOAT, _Target()) is None


@needs_owners
@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_can_write_is_neither_read_nor_written(kernels, folders, level, mode):
    cache._warn_once.cache_clear()
    kernels.save_overload(FLOAT, _Result(2.0))
    (file,) = folders[1].rglob("*.nbc")
    before = file.read_bytes()
    path = (folders[1], folders[1] / "kernels", file.parent, file)[level]
    path.chmod(path.stat().st_mode | mode)
    if path == file:
        assert kernels.load_overload(FLOAT, _Target()) is None
        return
    with pytest.warns(RuntimeWarning, match="others can write to it") as caught:
        assert kernels.load_overload(FLOAT, _Target()) is None
    assert str(path) in str(caught[0].message)
    kernels.save_overload(FLOAT, _Result(3.0))
    assert file.read_bytes() == before


@needs_owners
def test_a_folder_of_another_user_is_not_used_but_one_of_root_is(kernels, monkeypatch):
    kernels.save_overload(FLOAT, _Result(2.0))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    status = SimpleNamespace(st_mode=0o755, st_uid=0)
    assert cache._is_trusted(status)
    status.st_uid = 12345
    assert cache._is_trusted(status)
    status.st_uid = 1000
    assert not cache._is_trusted(status)


@needs_owners
def test_new_files_and_folders_are_not_writable_by_a_group_whatever_the_umask(kernels, folders):
    before = os.umask(0)
    try:
        kernels.save_overload(FLOAT, _Result(2.0))
    finally:
        os.umask(before)
    paths = [folders[1], *folders[1].rglob("*")]
    assert len(paths) == 4
    for path in paths:
        assert not path.stat().st_mode & 0o022, path
    assert kernels.load_overload(FLOAT, _Target()) == (2.0,)


def test_kernels_of_interactive_specs_are_not_saved(kernels, folders):
    sources._INTERACTIVE_SPECS.add("float64")
    kernels.save_overload(FLOAT, _Result(2.0))
    assert not list(folders[1].rglob("*.nbc"))
    assert kernels.load_overload(FLOAT, _Target()) is None


def test_code_with_addresses_of_this_process_is_not_saved_and_numba_warns(kernels, folders):
    dynamic = _Result(2.0, library=SimpleNamespace(has_dynamic_globals=True))
    with pytest.warns(numba.NumbaWarning, match="Cannot cache") as caught:
        kernels.save_overload(FLOAT, dynamic)
    assert caught[0].filename == __file__
    assert not list(folders[1].rglob("*.nbc"))


def test_a_folder_that_cannot_be_written_disables_the_cache(kernels, folders):
    folders[1].write_text("a file in the place of the folder", encoding="utf-8")
    kernels.save_overload(FLOAT, _Result(2.0))
    assert not kernels._enabled


def test_the_baseline_states_what_kernels_are_compiled_for(monkeypatch):
    cpu, needed = cache._BASELINES["x86_64"]
    features = dict.fromkeys(needed, True)
    monkeypatch.setattr(cache.llvmlite.binding, "get_host_cpu_features", lambda: features)
    expected = {
        "cpu": cpu,
        "python": ".".join(map(str, sys.version_info[:2])),
        "numba": numba.__version__,
        "llvmlite": cache.llvmlite.__version__,
        "system": sys.platform,
    }
    for machine in ("x86_64", "AMD64"):
        monkeypatch.setattr(cache.platform, "machine", lambda machine=machine: machine)
        assert cache._baseline() == expected
    for missing in needed:
        features[missing] = False
        assert cache._baseline() is None
        features[missing] = True
    for machine, expected_cpu in (("arm64", "apple-m1"), ("aarch64", "generic")):
        monkeypatch.setattr(cache.platform, "machine", lambda machine=machine: machine)
        assert cache._baseline() == {**expected, "cpu": expected_cpu}
    monkeypatch.setattr(cache.platform, "machine", lambda: "riscv64")
    assert cache._baseline() is None


def test_a_machine_without_a_baseline_shares_no_kernels(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "_baseline", lambda: None)
    with pytest.raises(ParameterError, match="x86-64-v3") as caught:
        cache.write_baseline(tmp_path / "shared")
    assert caught.value.parameter == "into"
    assert not (tmp_path / "shared").exists()


@pytest.mark.parametrize("folder", ["bundled", "own"])
def test_the_process_compiles_for_the_baseline_of_either_folder(
    folder, folders, monkeypatch, tmp_path
):
    baseline = {"cpu": "some-cpu"}
    monkeypatch.setattr(cache, "_baseline", lambda: baseline)
    monkeypatch.setattr(numba.config, "CPU_NAME", None)
    monkeypatch.setattr(numba.config, "CPU_FEATURES", None)
    cache.compile_for_baseline()
    assert (numba.config.CPU_NAME, numba.config.CPU_FEATURES) == (None, None)
    cache.write_baseline(tmp_path / folder)
    assert json.loads((tmp_path / folder / "baseline.json").read_text("utf-8")) == baseline
    monkeypatch.setattr(cache, "_baseline", dict)  # another machine, or another version
    cache.compile_for_baseline()
    assert numba.config.CPU_NAME is None
    monkeypatch.setattr(cache, "_baseline", lambda: baseline)
    cache.compile_for_baseline()
    assert (numba.config.CPU_NAME, numba.config.CPU_FEATURES) == ("some-cpu", "")
    monkeypatch.setattr(numba.config, "CPU_NAME", "chosen by the user")
    cache.compile_for_baseline()
    assert numba.config.CPU_NAME == "chosen by the user"
