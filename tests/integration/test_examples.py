"""The scripts of ``examples/`` run in their small size and leave what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rankine

pytestmark = [pytest.mark.docs, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
#: Script -> files that it writes, and words that it prints.
EXAMPLES = {
    "shop_search": (["model.rankine", "report.html", "log.parquet"], "the model is better"),
    "letor_protocol": (["tables.md", "report.html"], "**MAP"),
    "rare_topics": (["topics.rankine", "sizes.png"], "average precision"),
    "carousel_http": (["models/films.rankine", "report.html"], "is live"),
}


def test_every_example_is_tested():
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_writes_its_files_and_prints_its_result(name, tmp_path):
    files, words = EXAMPLES[name]
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py"), "--small"]
    environment = {**os.environ, "PYTHONPATH": str(Path(rankine.__file__).parents[1])}
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert words.strip("*") in done.stdout
    for file in files:
        assert (tmp_path / file).stat().st_size > 0
