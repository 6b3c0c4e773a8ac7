"""Expect errors by their type and parameter, whatever their text says."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rankine.core.errors import ParameterError, RankineError


@contextmanager
def raises_for(
    parameter: str, error: type[RankineError] = ParameterError
) -> Iterator[pytest.ExceptionInfo[RankineError]]:
    """Expect an error that names this parameter; the value of ``with`` holds it afterwards."""
    with pytest.raises(error) as caught:
        yield caught
    assert caught.value.parameter == parameter
