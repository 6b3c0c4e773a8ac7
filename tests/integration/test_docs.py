"""Python blocks of the README and the docs run; doctests of the package hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rankine

pytestmark = pytest.mark.docs
ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Text of other files, whose tests run it.
INCLUDED = re.compile(r"<!-- generated include .*?<!-- end generated -->", re.DOTALL)


def blocks(page):
    return BLOCK.findall(INCLUDED.sub("", page.read_text(encoding="utf-8")))


WITH_BLOCKS = [page for page in PAGES if blocks(page)]


def _write_raw_log(path, log):
    """A shop's log as its own columns, the way the guides name them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    n = log.n_rows
    columns = {
        "session_id": log.qid.astype(str),
        "product_id": log.docid,
        "clicked": (log.y > 0).astype(np.int64),
        "purchased": (log.y > 1).astype(np.int64),
        "price": np.round(np.exp(log.X[:, 2]) * 20, 2),
        "rating": log.X[:, 4],
        "brand": rng.choice(["acme", "zeta", "blue"], n),
        "category": rng.choice(["shoes", "hats"], n),
        "position": np.arange(n) % 24 + 1,
        "shown": np.full(n, 5),
        "ts": np.arange(n),
        "day": log.qid // 10,
    }
    pq.write_table(pa.table(columns), path)


@pytest.fixture(scope="session")
def readers_folder(tmp_path_factory):
    """The files that a reader of the docs is assumed to have."""
    from rankine import shop_log

    folder = tmp_path_factory.mktemp("reader")
    log = replace(shop_log(60, random_state=4), columns={}, position=None)
    parts = {
        "train": range(40),
        "valid": range(40, 50),
        "vali": range(40, 50),
        "test": range(50, 60),
    }
    for name, queries in parts.items():
        part = log.take_queries(np.array(queries))
        for suffix in ("txt", "txt.gz", "parquet"):
            path = folder / f"{name}.{suffix}"
            part.save(path)
    (folder / "logs").mkdir()
    for suffix in ("txt", "parquet"):
        shutil.copy(folder / f"train.{suffix}", folder / "logs" / f"day-1.{suffix}")
        shutil.copy(folder / f"train.{suffix}", folder / f"huge.{suffix}")
    for name in ("log", "tomorrow"):
        _write_raw_log(folder / f"{name}.parquet", log)
    _write_raw_log(folder / "randomised.parquet", shop_log(150, random_state=5))
    shutil.copy(folder / "train.txt.gz", folder / "log.txt.gz")
    (folder / "no-ids.txt").write_text("1 1:1\n0 1:2\n0 1:3\n1 1:5\n0 1:4\n", encoding="utf-8")
    (folder / "no-ids.txt.query").write_text("3\n2\n", encoding="utf-8")
    (folder / "features.txt").write_text("\n".join(log.feature_names), encoding="utf-8")
    ranker = rankine.SPDRanker(n_steps=2000, random_state=0).fit(log)
    for name in ("model", "old", "new", "a", "b"):
        ranker.to_model().save(folder / f"{name}.rankine")
    return folder, log, ranker


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_blocks_run_in_order(page, readers_folder, tmp_path, monkeypatch):
    """Blocks of a page share their names, as a reader with data at hand would type them."""
    folder, log, ranker = readers_folder
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {
        "__name__": "__docs__",
        "rankine": rankine,
        "np": np,
        "data": log,
        "train": log.take_queries(np.arange(40)),
        "test": log.take_queries(np.arange(40, 60)),
        "X": log.X,
        "y": log.y,
        "qid": log.qid,
        "scores": ranker.predict(log),
        "ranker": ranker,
        "model": ranker.to_model(),
        "old_model": ranker.to_model(),
        "new_model": rankine.RankSVM().fit(log).to_model(),
        "score": ranker.predict(log),
        "X_valid": log.X[:300],
        "y_valid": log.y[:300],
        "qid_valid": log.qid[:300],
        "Y": np.column_stack([log.y > 0, log.y > 1]).astype(float),
        "names": ["grain", "oil"],
    }
    before = len(names)
    for number, block in enumerate(blocks(page), 1):
        exec(compile(block, f"{page.name} block {number}", "exec"), names)  # noqa: S102
    assert len(names) >= before


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def modules_with_examples():
    found = []
    for module in pkgutil.walk_packages(rankine.__path__, "rankine."):
        path = Path(module.module_finder.path) / f"{module.name.rpartition('.')[2]}.py"
        if path.exists() and ">>> " in path.read_text(encoding="utf-8"):
            found.append(module.name)
    return found


@pytest.mark.parametrize("name", modules_with_examples())
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
