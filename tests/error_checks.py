"""Expect errors by their type, parameter and place, whatever their text says."""

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


@contextmanager
def raises_at(
    error: type[RankineError], *, line: int | None = None, column: int | str | None = None
) -> Iterator[pytest.ExceptionInfo[RankineError]]:
    """Expect an error that names this line, this column, or both."""
    with pytest.raises(error) as caught:
        yield caught
    if line is not None:
        assert caught.value.line == line
    if column is not None:
        assert caught.value.column == column
