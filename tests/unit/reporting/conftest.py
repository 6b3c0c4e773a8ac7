"""A fitted model, evaluated on the test lists of the shop."""

from __future__ import annotations

import pytest

from rankine.reporting.run import evaluate_subject
from unit.reporting.report_cases import fitted, shop


@pytest.fixture
def evaluated():
    return evaluate_subject(fitted(), shop()[1])


@pytest.fixture(scope="module")
def scores():
    return fitted().predict(shop()[1])
