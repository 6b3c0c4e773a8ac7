"""The generated log of a billion rows: drawn by number, however it is cut, as its truth says."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
from benchmarks.billion import log as billion_log


def test_rows_do_not_depend_on_how_they_are_cut(tmp_path):
    whole = billion_log.table(1000, 300)
    for first, count in ((1000, 100), (1100, 200)):
        billion_log.write(tmp_path / f"{first}.parquet", first, count)
    parts = [pq.read_table(tmp_path / f"{first}.parquet") for first in (1000, 1100)]
    for name in whole.column_names:
        found = [value for part in parts for value in part[name].to_pylist()]
        assert found == whole[name].to_pylist()


def test_clicks_follow_the_chances_and_chances_the_truth():
    codes, numbers, chances, clicked = billion_log.rows(0, 40_000)
    effects = billion_log.truth().values()
    utility = sum(own[codes[j]] for j, own in enumerate(effects))
    utility = utility + np.array(list(billion_log.NUMERIC.values())) @ numbers.astype(float)
    lists = np.exp(utility).reshape(-1, billion_log.LIST_ROWS)
    expected = lists / lists.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chances.reshape(lists.shape), expected, rtol=1e-9)
    assert (clicked.reshape(lists.shape).sum(axis=1) == 1).all()
    likely = chances > 0.5
    assert abs(clicked[likely].mean() - chances[likely].mean()) < 0.03
    assert abs(numbers.std() - 1.0) < 0.01
