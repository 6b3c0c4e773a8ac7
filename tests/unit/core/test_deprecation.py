"""Names leave with a warning, and leave when they were said to."""

from __future__ import annotations

import importlib
import pkgutil
import warnings

import pytest

import rankine
from rankine.core.deprecation import ANNOUNCED, deprecated


@deprecated(since="0.1", gone_in="9.0", instead="Call new_name.")
def old_name(a, *, b=1):
    """Adds."""
    return a + b


def test_the_old_name_works_and_warns_at_the_caller():
    with pytest.warns(FutureWarning, match=r"old_name .* gone in 9\.0\. Call new_name\.") as caught:
        assert old_name(2, b=3) == 5
    assert caught[0].filename == __file__
    assert old_name.__doc__ == "Adds."


def test_every_call_site_is_warned():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        old_name(1)
        old_name(1)
    assert len(caught) == 2


def test_only_names_of_the_package_are_announced(monkeypatch):
    monkeypatch.setattr("rankine.core.deprecation.ANNOUNCED", found := [])
    mark = deprecated(since="0.1", gone_in="9.0", instead="Call new_name.")

    def own():
        pass

    own.__module__ = "rankine.somewhere"
    assert mark(own).__module__ == "rankine.somewhere"
    mark(lambda: None)
    assert [(told.name.rpartition(".")[2], told.since, told.gone_in) for told in found] == [
        ("own", "0.1", "9.0")
    ]


def version(text):
    return tuple(int(part) for part in text.split(".")[:2])


def test_no_name_outlives_its_announcement():
    for module in pkgutil.walk_packages(rankine.__path__, "rankine."):
        if not module.name.startswith(("rankine.cli", "rankine.mlflow")):
            importlib.import_module(module.name)
    now = version(rankine.__version__)
    assert all(version(told.since) < version(told.gone_in) for told in ANNOUNCED)
    late = [told.name for told in ANNOUNCED if version(told.gone_in) <= now]
    assert not late, f"announced to be gone by {rankine.__version__}: {late}"
