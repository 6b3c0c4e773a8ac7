"""A raw log, and a model that was trained on it."""

from __future__ import annotations

import pytest

from rankine import ElasticRanker, logs
from reference.raw_logs import COLUMNS, write_log


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write_log(path)
    return path


@pytest.fixture(scope="module")
def trained(log):
    parts = logs.scan(log, **COLUMNS).split("time:9/11,1/11,1/11")
    return ElasticRanker(random_state=0, scale="query", metric="mrr").fit(parts["train"]).to_model()
