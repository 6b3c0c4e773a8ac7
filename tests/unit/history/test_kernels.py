"""Tables of history features against sums that are computed from their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankine.history import kernels
from rankine.history.kernels import AGE, COUNT, LAST, RATE, KeyTable, TableRule, insert_rows

KEY, OTHER = 17, 18


def table(kind, half_life=math.inf, bucket=0, n_buckets=0, forget=10**12, prior=0.0, log=False):
    n_sums = {COUNT: 1, LAST: 0, AGE: 1}.get(kind, 2)
    words = np.zeros((9, 2 + n_sums * max(n_buckets, 1)), dtype=np.int64)
    rule = TableRule(kind, n_sums, half_life, bucket, n_buckets, forget, prior, log)
    return KeyTable(words, words.view(np.float64), np.zeros(1, dtype=np.int64), rule)


def update(of, key, time, x=1.0, y=1.0):
    return kernels.update(of.words, of.numbers, of.rule, key, time, x, y)


def read(of, key, time):
    overall = kernels.overall_rate(of.words, of.numbers, of.rule, time)
    return kernels.read(of.words, of.numbers, of.rule, key, time, overall)


def test_sums_halve_with_time_also_for_outcomes_that_come_late():
    counts = table(COUNT, half_life=10.0)
    assert update(counts, KEY, 100, 4.0)
    assert not update(counts, KEY, 110, 1.0)
    assert read(counts, KEY, 110) == 3.0
    assert read(counts, KEY, 120) == 1.5
    update(counts, KEY, 100, 2.0)  # late: it has halved since
    assert read(counts, KEY, 110) == 4.0


def test_a_window_holds_the_last_buckets():
    counts = table(COUNT, bucket=10, n_buckets=3)
    for time in (5, 15, 25, 26):
        update(counts, KEY, time)
    assert [read(counts, KEY, time) for time in (29, 30, 40, 50)] == [4.0, 3.0, 2.0, 0.0]
    update(counts, KEY, 5)  # too late to matter
    update(counts, KEY, 35)
    assert read(counts, KEY, 35) == 4.0


def test_a_rate_is_shrunk_to_the_rate_over_all_keys():
    rates = table(RATE, prior=2.0)
    for key, clicks in ((KEY, 1.0), (KEY, 0.0), (OTHER, 0.0), (OTHER, 0.0)):
        update(rates, key, 1, clicks, 1.0)
    assert kernels.overall_rate(rates.words, rates.numbers, rates.rule, 2) == 0.25
    assert read(rates, KEY, 2) == (1 + 2 * 0.25) / (2 + 2)
    assert read(rates, 99, 2) == read(rates, 0, 2) == 0.25


def test_times_are_in_hours_and_forgotten():
    hour = 3600 * 10**6
    last, age = table(LAST, forget=5 * hour), table(AGE, forget=5 * hour)
    for of in (last, age):
        for time in (hour, 3 * hour):
            update(of, KEY, time)
    assert (read(last, KEY, 4 * hour), read(age, KEY, 4 * hour)) == (1.0, 3.0)
    assert math.isnan(read(last, KEY, 9 * hour))
    update(age, KEY, 9 * hour)  # absent for too long: it starts again
    assert read(age, KEY, 10 * hour) == 1.0


@pytest.mark.parametrize(
    ("kind", "key", "x", "y"),
    [(COUNT, 0, 1.0, 1.0), (COUNT, KEY, 0.0, 0.0), (LAST, KEY, 0.0, 0.0), (LAST, KEY, -1.0, 0.0)],
)
def test_rows_that_change_nothing_take_no_memory(kind, key, x, y):
    of = table(kind)
    assert not update(of, key, 1, x, y)
    assert not of.words.any()


def test_a_logarithm_keeps_the_sign():
    of = table(COUNT, log=True)
    update(of, KEY, 1, -3.0)
    assert read(of, KEY, 1) == -math.log(4)


def test_rows_of_a_snapshot_are_inserted_once():
    rows = np.array([[KEY, 5, 1], [OTHER, 6, 2], [KEY + 8, 7, 3]])
    words = np.zeros((9, 3), dtype=np.int64)
    assert insert_rows(words, rows, np.array([True, False, True])) == 2
    assert sorted(words[words[:, 0] != 0, 0].tolist()) == [KEY, KEY + 8]
    for bad in (rows[[0, 0]], np.array([[0, 1, 1]])):
        assert insert_rows(np.zeros_like(words), bad, np.ones(len(bad), dtype=bool)) == -1
