"""docs/architecture.md names the files that a fit, a streamed training and a request run."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import rankine
from rankine.serve.app import Service
from rankine.serve.connection import ConnectionPool, Request
from rankine.serve.limits import Limits
from rankine.serve.metrics import Metrics
from rankine.serve.registry import Registry, ServedModel
from rankine.serve.security import AccessPolicy

ROOT = Path(rankine.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
_, FIT, STREAM, REQUEST, *_ = re.split(r"^## ", PAGE, flags=re.MULTILINE)


def numbered_files(section):
    return re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)


def named_files(section):
    return set(re.findall(r"`([\w/]+\.py)`", section))


def traced_files(work):
    """Run ``work`` and return the files of the package, kernels apart, whose functions ran."""
    files = set()

    def profile(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)) and frame.f_code.co_name != "<module>":
            files.add(Path(name).relative_to(ROOT).as_posix())

    sys.setprofile(profile)
    threading.setprofile(profile)  # streams are read on another thread
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {name for name in files if not name.startswith("kernels/")}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 4)), rng.integers(0, 3, 200), np.repeat(np.arange(20), 10)


def check(section, work):
    """Everything that runs is named in the section, and all numbered files run."""
    work()  # imports and compiles
    files = traced_files(work)
    assert files <= named_files(section), sorted(files - named_files(section))
    # Python's profiler does not see compiled functions, the request comes without a connection, and
    # the schemas of a valid request are types without functions.
    not_traced = {"scoring/kernels.py", "serve/connection.py", "serve/schemas.py"}
    missing = set(numbered_files(section)) - files - not_traced
    assert not missing, sorted(missing)


def test_the_lists_are_short_and_their_files_exist():
    assert len(numbered_files(FIT)) <= 12
    assert len(numbered_files(STREAM)) <= 12
    assert len(numbered_files(REQUEST)) <= 8
    assert [name for name in named_files(PAGE) if not (ROOT / name).is_file()] == []


def test_a_fit_runs_the_files_that_the_page_names(rows):
    X, y, qid = rows
    check(FIT, lambda: rankine.RankSVM().fit(X, y, qid=qid))


def test_a_streamed_training_runs_the_files_that_the_page_names(rows, tmp_path):
    path = tmp_path / "train.txt"
    rankine.Dataset.from_arrays(*rows).save(path)
    check(STREAM, lambda: rankine.ElasticRanker(random_state=0).fit(rankine.scan(path)))


def test_a_request_runs_the_files_that_the_page_names(rows):
    X, y, qid = rows
    data = rankine.Dataset.from_arrays(X, y, qid, feature_names=["a", "b", "c", "d"])
    registry = Registry()
    registry.put(ServedModel("shop", rankine.RankSVM().fit(data).to_model()))
    pool = ConnectionPool(Limits(), Metrics(), None)
    service = Service(registry, pool, AccessPolicy("127.0.0.1"))
    body = json.dumps({"items": [{"features": {"a": 1.0}}, {"features": {"b": 2.0}}]}).encode()
    headers = {b"host": b"localhost", b"content-type": b"application/json"}
    request = Request(b"POST", b"/v1/rank", headers, body, close=False)
    check(REQUEST, lambda: service.handle(request, on_event_loop=True))
