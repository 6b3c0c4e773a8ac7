"""Capabilities of rankers."""

from __future__ import annotations

import pytest

from error_checks import raises_for
from rankine.core.errors import ParameterError
from rankine.rankers.capabilities import Capabilities


def test_an_action_that_is_not_supported_is_refused_with_the_alternatives():
    able = Capabilities(fit=("memory", "stream"))
    able.require("fit", "stream", "A")
    with pytest.raises(ParameterError, match=r"A cannot be fitted to partitions") as caught:
        able.require("fit", "partitions", "A")
    assert caught.value.fix == (
        "Use rows in memory (rankine.load(...)) or a stream (rankine.scan(...))"
    )
    with raises_for("checkpoint"):
        able.require("checkpoint", "memory", "A")
    with pytest.raises(ParameterError) as caught:
        able.require("path", "memory", "A")
    assert caught.value.fix == "Leave it out, or use another ranker"
