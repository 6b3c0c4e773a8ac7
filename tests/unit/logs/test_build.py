"""History features as columns of a file, and states that follow the log from day to day."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import rankine
from error_checks import raises_for
from rankine.core.errors import FileKindError, ParameterError, QueryOrderError
from rankine.history.state import load_state
from rankine.logs.schema import LogSchema
from reference.history import DECLARATIONS, brute_force, history_of, random_log

SCHEMA = LogSchema.make({
    "query": "session", "label": "clicked", "numeric": ["weight"], "time": "ts",
    "outcome_time": "outcome_ts", "position": "position", "forget": 150,
    "history": DECLARATIONS, "propensity": [1.0, 0.5, 0.25],
})  # fmt: skip


def make_days(tmp_path):
    """Return a log, and its files of two days."""
    frame = random_log(np.random.default_rng(4), n_lists=100)
    starts = frame.groupby("session").ts.transform("min")
    is_later = starts > starts.median()
    files = [tmp_path / "monday.parquet", tmp_path / "tuesday.parquet"]
    for file, rows in zip(files, (~is_later, is_later), strict=True):
        frame[rows].to_parquet(file)
    return frame, files


@pytest.fixture
def days(tmp_path):
    return make_days(tmp_path)


def test_built_columns_are_the_features(days, tmp_path):
    frame, files = days
    out = tmp_path / "features.parquet"
    report = rankine.logs.build_history(files, out, SCHEMA, state=tmp_path / "state", block_rows=9)
    assert report == (report.__class__)(len(frame), 100, tuple(DECLARATIONS))
    built = pd.read_parquet(out)
    pd.testing.assert_frame_equal(built[list(frame)].reset_index(drop=True), frame)
    expected = brute_force(frame, history_of())
    np.testing.assert_allclose(built[list(DECLARATIONS)], expected, rtol=1e-12, atol=1e-12)
    log = rankine.logs.scan(out, schema=SCHEMA.without_history())
    assert log.schema.numeric == ("weight", *DECLARATIONS)
    assert load_state(tmp_path / "state").counts.lists == 100


def test_a_state_goes_from_day_to_day(days, tmp_path):
    _, (monday, tuesday) = days
    out, state = tmp_path / "features.arrow", tmp_path / "state"
    rankine.logs.build_history(monday, out, SCHEMA, state=state)
    rankine.logs.apply_history(state, tuesday)
    at_once = rankine.logs.scan([monday, tuesday], schema=SCHEMA).history_state()
    at_once.save(tmp_path / "at_once")
    assert (state / "history.safetensors").read_bytes() == (tmp_path / "at_once").read_bytes()
    for again in (monday, tuesday):
        with raises_for("state", QueryOrderError):
            rankine.logs.apply_history(state, again)


def test_wrong_calls_name_the_reason(days, tmp_path):
    _, (monday, _) = days
    with pytest.raises(ParameterError) as caught:
        rankine.logs.build_history(monday, tmp_path / "f.parquet", SCHEMA.without_history())
    assert caught.value.parameter == "schema"
    with pytest.raises(FileKindError):
        rankine.logs.build_history(monday, tmp_path / "f.npz", SCHEMA)
    with pytest.raises(Exception, match=r"history\.safetensors"):
        rankine.logs.apply_history(tmp_path / "none", monday)
    assert not (tmp_path / "none").exists()
