"""Options of readers are checked when they are made."""

from __future__ import annotations

import os

import numpy as np
import pytest

from rankine.core.errors import (
    ParameterError,
)
from rankine.data import options as option_module
from rankine.data.options import ReadOptions


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"base": 2}, "base"),
        ({"qid_type": "float"}, "qid_type"),
        ({"on_bad_row": "ignore"}, "on_bad_row"),
        ({"dtype": "float16"}, "dtype"),
        ({"dtype": "\udcff"}, "dtype"),
        ({"dtype": ","}, "dtype"),
        ({"block_rows": 0}, "block_rows"),
        ({"max_features": 0}, "max_features"),
        ({"max_features": 2**31}, "max_features"),
        ({"n_features": -1}, "n_features"),
        ({"n_features": 11, "max_features": 10}, "n_features"),
    ],
)
def test_values_outside_their_range_are_refused(given, parameter):
    with pytest.raises(ParameterError) as caught:
        ReadOptions.make(**given)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"group": [1], "single_query": True}, "both group and single_query"),
        ({"rows": 3}, "unknown option 'rows'"),
    ],
)
def test_options_that_mean_nothing_are_refused(given, reason):
    with pytest.raises(ParameterError, match=reason):
        ReadOptions.make(**given)


def test_what_is_not_said_is_as_documented():
    options = ReadOptions()
    assert (options.base, options.block_rows, options.max_ratio) == (1, 65536, 256)
    assert options.max_features == 2**31 - 1
    assert options.max_line_bytes == 16 * 1024**2
    assert options.max_query_rows == options.max_queries == 16 * 1024**2
    assert options.chunk_bytes == 1024**2


def test_options_at_their_limits(monkeypatch):
    least = dict.fromkeys(option_module._POSITIVE, 1)
    assert ReadOptions.make(**least, n_features=1).n_features == 1
    assert ReadOptions.make(n_features=0, max_features=2**31 - 1).n_features == 0
    assert ReadOptions.make(dtype=np.float32).dtype == "float32"
    assert ReadOptions.make(group=[1]).single_query is False
    assert ReadOptions.make().has_query_ids
    assert not ReadOptions.make(group=[1]).has_query_ids
    assert not ReadOptions.make(single_query=True).has_query_ids
    assert ReadOptions.make(max_memory=7).memory_limit == 7
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert ReadOptions.make().memory_limit == 40960
    monkeypatch.delattr(os, "sysconf")
    assert ReadOptions.make().memory_limit == 2**63 - 1
