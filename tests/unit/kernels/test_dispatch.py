"""Generic functions choose their implementation by the type of the first argument."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic, inlined_generic


class _Double(NamedTuple):
    """Has an implementation."""

    factor: float = 2.0


class _Other(NamedTuple):
    """Has no implementation."""


@generic
def _scale(spec, x):
    """Return x, scaled."""


@_scale.implementation(_Double)
def _scale_double(spec, x):
    return spec.factor * x


@inlined_generic
def _shift(spec, x):
    """Return x, shifted."""


@_shift.implementation(object)
def _shift_by_one(_spec, x):
    return x + 1.0


@jit
def _scale_and_shift(spec, values):
    total = 0.0
    for i in range(values.shape[0]):
        total += _shift(spec, _scale(spec, values[i]))
    return total


def test_a_generic_function_keeps_the_name_and_docstring_of_its_stub():
    assert (_scale.__name__, _scale.__qualname__) == ("_scale", "_scale")
    assert _scale.__doc__ == "Return x, scaled."
    assert _scale.__module__ == __name__


def test_a_type_without_implementation_raises_until_a_default_is_registered():
    assert _scale(_Double(), 3.0) == 6.0
    with pytest.raises(TypeError, match="_scale has no implementation for _Other"):
        _scale(_Other(), 3.0)
    _scale.implementation(object)(lambda _spec, x: -x)
    try:
        assert _scale(_Other(), 3.0) == -3.0
        assert _scale(_Double(), 3.0) == 6.0
        assert list(_scale.implementations) == [_Double, object]
    finally:
        del _scale.implementations[object]


def test_compiled_code_calls_the_implementation_and_the_default():
    assert _scale_and_shift(_Double(3.0), np.array([1.0, 2.0])) == 11.0
