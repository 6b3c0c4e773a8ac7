"""The wheel is built, holds what it should, and works where it is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("rankine-*.whl"))


def test_the_wheel_holds_the_package_and_its_data(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(n for n in names if n.endswith("METADATA"))
        text = archive.read(metadata).decode()
    assert "rankine/py.typed" in names
    assert "rankine/cli/main.py" in names
    assert not [n for n in names if n.startswith(("tests/", "benchmarks/", "papers/"))]
    sources = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*.py")}
    assert sources <= set(names)
    assert "License-Expression: BSD-3-Clause" in text
    for extra in ("serve", "tune", "dask", "report", "onnx", "all"):
        assert f"Provides-Extra: {extra}" in text


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
