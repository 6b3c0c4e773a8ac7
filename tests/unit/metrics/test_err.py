"""Expected reciprocal rank."""

import pytest

from rankine.core.errors import (
    LabelError,
)
from rankine.metrics import evaluate

pytestmark = pytest.mark.kernels


def test_err_needs_the_highest_label():
    with pytest.raises(LabelError):
        evaluate("err", [5, 0], [0.0, 1.0])
    assert evaluate("err:max_label=5", [5, 0], [1.0, 0.0]) == 31 / 32
    assert evaluate("err:gain=stop", [0, 0], [1.0, 0.0], columns={"stop": [0.5, 1.0]}) == 0.75
    with pytest.raises(LabelError):
        evaluate("err:gain=linear", [2, 0], [1.0, 0.0])
