"""A warning points at the user's line, and holds no secret."""

from __future__ import annotations

import warnings

import pytest

from rankine.core.user_warnings import warn_user


def test_the_line_is_that_of_the_caller():
    with pytest.warns(UserWarning, match="slow") as caught:
        warn_user("slow")
    assert caught[0].filename == __file__


def test_the_package_is_passed_over():
    # As if a function of the package had called it.
    scope = {"__name__": "rankine.somewhere", "warn_user": warn_user}
    exec("def call(): warn_user('slow')", scope)  # noqa: S102 - our own code
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scope["call"]()
    assert caught[0].filename == __file__


def test_secrets_are_masked():
    with pytest.warns(RuntimeWarning) as caught:
        warn_user("see https://host/a?token=abc", RuntimeWarning)
    assert "abc" not in str(caught[0].message)
