"""The walks of docs/architecture.md are those that the code takes, and they are short."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

import rankine

ROOT = Path(rankine.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
FIT, REQUEST = PAGE.split("## One served request")


def listed(text):
    return re.findall(r"^\d+\. `([\w/]+\.py)`", text, re.MULTILINE)


def named(text):
    return set(re.findall(r"`([\w/]+\.py)`", text))


def visited(work):
    """Files of the package whose functions run."""
    found = set()

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)) and frame.f_code.co_name != "<module>":
            found.add(Path(name).relative_to(ROOT).as_posix())

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def test_the_walks_are_short_and_their_files_exist():
    assert len(listed(FIT)) <= 12
    assert len(listed(REQUEST)) <= 8
    assert [name for name in named(PAGE) if not (ROOT / name).is_file()] == []


def test_a_fit_visits_the_files_that_the_page_names():
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(200, 4)), rng.integers(0, 3, 200), np.repeat(np.arange(20), 10)
    rankine.RankSVM().fit(X, y, qid=qid)  # imports and compiles
    found = visited(lambda: rankine.RankSVM().fit(X, y, qid=qid))
    found = {name for name in found if not name.startswith("kernels/")}
    assert found <= named(FIT), sorted(found - named(FIT))
    assert set(listed(FIT)) <= found, sorted(set(listed(FIT)) - found)
