"""Measured latency."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import (
    ParameterError,
)
from rankine.data import Dataset
from rankine.scoring import latency


def test_latency_is_the_fastest_of_some_measurements(monkeypatch):
    scored = []

    class Slow:
        def __init__(self, model):
            self.n = model.n_features

        def score(self, rows):
            assert rows.shape[1] == self.n
            scored.append(rows)
            clock[0] += durations[len(scored) - 1]

    clock = [50.0]
    monkeypatch.setattr("rankine.scoring.Scorer", Slow)
    monkeypatch.setattr(latency, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    X = np.arange(36.0).reshape(6, 6)
    for storage in (X, sparse.csr_matrix(X)):
        scored.clear()
        durations = [9.0, 1.0, 2.0, 1.0, 4.0, 1.0, 5.0, 1.0, 7.0, 7.0]
        data = Dataset.from_arrays(storage, np.zeros(6), [1, 1, 1, 1, 2, 2])
        found = latency.scoring_latency(np.array([0.0, 1, 0, 0, 2, 3]), data)
        assert found == pytest.approx(3.0 * 1000 / 6)
        assert len(scored) == 10
        first = scored[0] if isinstance(scored[0], np.ndarray) else scored[0].toarray()
        np.testing.assert_array_equal(first, X[:4, [1, 4, 5]])
    scored.clear()
    assert latency.scoring_latency(np.zeros(6), data) == pytest.approx(3.0 * 1000 / 6)
    assert scored[0].shape == (4, 1)
    scored.clear()
    durations = [1.0] * 600
    single = Dataset.from_arrays(np.ones((1, 1)), np.zeros(1))
    assert latency.scoring_latency(np.ones(1), single) == pytest.approx(1000.0)
    scored.clear()
    many = Dataset.from_arrays(np.ones((120, 1)), np.zeros(120), np.arange(120))
    assert latency.scoring_latency(np.ones(1), many) == pytest.approx(1000.0)
    assert len(scored) == 500


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("0.009ms", 0.009), ("9us", 0.009), (" 2 s ", 2000.0), (".5", 0.5), ("3.", 3.0)],
)
def test_latencies_are_read(text, milliseconds):
    assert latency.parse_latency(text) == pytest.approx(milliseconds)
    for bad in ("0", "0.0ms", "-1ms", "soon", "1 min", ""):
        with pytest.raises(ParameterError) as caught:
            latency.parse_latency(bad)
        assert caught.value.parameter == "max_latency"
