"""The wheel contains what it should, works where it is installed, and can bundle kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging
ROOT = Path(__file__).resolve().parents[2]


def build_wheel(folder, **environment):
    return subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = build_wheel(folder)
    assert build.returncode == 0, build.stderr
    return next(folder.glob("rankine-*.whl"))


def test_the_wheel_contains_the_package_and_its_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata_name = next(name for name in names if name.endswith("METADATA"))
        metadata = archive.read(metadata_name).decode()
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "rankine/py.typed" in names
    assert "rankine/cli/main.py" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("templates/*")]
    assert {path.relative_to(ROOT / "src").as_posix() for path in files} <= set(names)
    assert "License-Expression: BSD-3-Clause" in metadata
    for extra in ("serve", "tune", "dask", "report", "onnx", "all"):
        assert f"Provides-Extra: {extra}" in metadata


def test_the_installed_wheel_trains_and_scores(wheel, tmp_path):
    """Installed into an empty folder, ahead of everything else on the path."""
    target = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel],
        check=True,
        capture_output=True,
    )
    program = (
        "import sys, rankine; from rankine import shop_log; "
        "assert rankine.__file__.startswith(sys.argv[1]); log = shop_log(30); "
        "ranker = rankine.SPDRanker(n_steps=200, random_state=0).fit(log); "
        "ranker.to_model().save(sys.argv[2]); print(rankine.LinearModel.load(sys.argv[2]).nnz)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(target), str(tmp_path / "m.rankine")],
        env={"PYTHONPATH": str(target), "PATH": "", "HOME": str(tmp_path)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(result.stdout) == 14


def test_a_folder_of_kernels_is_bundled_in_a_wheel_for_this_platform(tmp_path):
    kernels = tmp_path / "kernels"
    (kernels / "kernels" / "rows-0123").mkdir(parents=True)
    (kernels / "kernels" / "rows-0123" / "dot.nbc").write_bytes(b"code")
    (kernels / "baseline.json").write_text("{}", encoding="utf-8")
    build = build_wheel(tmp_path, RANKINE_KERNELS=str(kernels))
    assert build.returncode == 0, build.stderr
    (path,) = tmp_path.glob("*.whl")
    python, abi, platform = path.stem.split("-")[-3:]
    assert (python, abi) == (f"cp{sys.version_info[0]}{sys.version_info[1]}", "none")
    assert platform.startswith(("manylinux_2_28_", "macosx_11_0_", "win_"))
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        wheel_metadata = next(name for name in names if name.endswith("/WHEEL"))
        assert "Root-Is-Purelib: false" in archive.read(wheel_metadata).decode()
    assert {
        "rankine/__init__.py",
        "rankine/_kernels/baseline.json",
        "rankine/_kernels/kernels/rows-0123/dot.nbc",
    } <= names


def test_a_folder_that_warmup_has_not_filled_is_not_bundled(tmp_path):
    (tmp_path / "kernels").mkdir()
    build = build_wheel(tmp_path, RANKINE_KERNELS=str(tmp_path / "kernels"))
    assert build.returncode != 0
    assert "baseline.json" in build.stdout + build.stderr
    assert not list(tmp_path.glob("*.whl"))
