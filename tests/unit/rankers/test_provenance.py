"""What a model file remembers of its training, and what may be searched."""

import numpy as np
import pytest

from rankine.core.errors import ParameterError
from rankine.rankers.provenance import pack_trace, plain
from rankine.rankers.registry import Choice, Number, ranker_class


def test_parameters_as_plain_data():
    given = {
        "a": np.float64(0.5), "b": np.int64(3), "c": np.bool_(True), "d": np.arange(64),
        "e": np.zeros((13, 5)), "f": [np.float32(1), ("x", None)], "g": {1: np.arange(2)},
        "h": len, "i": "text", "j": 2.5, "k": None,
    }  # fmt: skip
    found = plain(given)
    assert found == {
        "a": 0.5, "b": 3, "c": True, "d": list(range(64)), "e": "array of shape (13, 5)",
        "f": [1.0, ["x", None]], "g": {"1": [0, 1]}, "h": "<builtin_function_or_method>",
        "i": "text", "j": 2.5, "k": None,
    }  # fmt: skip
    assert [type(found[name]) for name in "abc"] == [float, int, bool]


@pytest.mark.parametrize("count", [0, 1, 2, 64, 65, 500])
def test_a_trace_keeps_its_ends_and_at_most_64_records(count):
    found = pack_trace([{"step": k, "seconds": 1.0} for k in range(count)])
    if count == 0:
        assert found == {}
        return
    steps = found["step"]
    assert set(found) == {"step"}
    assert len(steps) == min(count, 64)
    assert (steps[0], steps[-1]) == (0, count - 1)
    even = [k * (count - 1) / max(len(steps) - 1, 1) for k in range(len(steps))]
    np.testing.assert_allclose(steps, even, atol=0.5)


def test_numbers_of_a_trace_are_short():
    rows = [{"x": 0.123456789, "y": np.inf}, {"x": 2.0}, {"x": -1234567.0, "y": 1e15}, {"x": 1e16}]
    found = pack_trace(rows)
    assert found == {"x": [0.123457, 2, -1234570, 1e16], "y": [None, None, 1e15, None]}
    assert [type(x) for x in found["x"]] == [float, int, int, float]
    assert type(found["y"][2]) is float


@pytest.mark.parametrize(
    "wrong",
    [{"low": 1.0, "high": 1.0}, {"low": 2.0, "high": 1.0}, {"low": -np.inf, "high": 1.0},
     {"low": 0.0, "high": np.inf}, {"low": np.nan, "high": 1.0},
     {"low": 0.0, "high": 1.0, "log": True}, {"low": -1.0, "high": 1.0, "log": True}],
)  # fmt: skip
def test_empty_ranges_are_refused(wrong):
    with pytest.raises(ParameterError, match="range"):
        Number(**wrong)


def test_choices_and_names():
    assert Number(1e-9, 1.0, log=True).low == 1e-9
    assert Number(0.0, 1.0).high == 1.0
    assert Choice(("a", "b", "a")).values == ("a", "b")
    assert Choice(lambda: ["c"]).values == ("c",)
    with pytest.raises(ParameterError) as caught:
        ranker_class("svm")
    assert caught.value.parameter == "ranker"
