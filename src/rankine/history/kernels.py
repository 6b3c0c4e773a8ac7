"""Update and read tables of history features: compiled once, for the offline pass and the server.

A table is an open-addressing hash table with linear probing in one array. A row is 8-byte words::

    hash, time, sums ...     sums that halve: time of the last update, one number per sum
                             windows: last bucket, then the sums of each bucket
                             last: time of the last positive row
                             age: time of the last row, then (as an integer) of the first one

The last row of the array holds the sums over all keys. Times are microseconds. A hash of 0 marks an
empty row in a table, and a missing key in the data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import jit
from rankine.kernels.random import random_bits

#: Kinds of features.
COUNT, RATE, MEAN, LAST, AGE = range(5)
#: Sums below this are 0, so that a key may be forgotten without changing a bit.
NEGLIGIBLE = 1e-9
#: A table grows beyond this share of used rows.
MAX_LOAD = 0.7
#: Rows of a list that are fetched together: they fit into the fastest cache.
_FETCHED = 256
#: Microseconds of an hour: the unit of ``last`` and ``age``.
_HOUR = 3.6e9
_HASH, _TIME, _SUMS = 0, 1, 2
_SHIFT, _MASK = np.uint64(3), np.uint64(7)
_MINUS, _ZERO = ord("-"), ord("0")


#: The memory of a table, as integers and as floats.
Words = NDArray[np.int64]
Numbers = NDArray[np.float64]


class TableRule(NamedTuple):
    """How a feature is computed.

    Attributes
    ----------
    kind
        COUNT, RATE, MEAN, LAST or AGE.
    n_sums
        Sums per key (and bucket).
    half_life
        In microseconds; infinite if sums do not halve.
    bucket, n_buckets
        Microseconds of a bucket of a window, and buckets in a window; 0 without a window.
    forget
        Microseconds after which ``last`` and ``age`` forget a key.
    prior
        Pseudo-rows at the overall rate.
    log
        Whether values are sign(x) log(1 + |x|).
    """

    kind: int
    n_sums: int
    half_life: float
    bucket: int
    n_buckets: int
    forget: int
    prior: float
    log: bool


class KeyTable(NamedTuple):
    """A hash table of a feature.

    Compiled functions take the arrays as arguments and are inlined: each access to an array in a
    tuple, and each call, counts references. An update and a reading took 195 ns, and now take 80.

    Attributes
    ----------
    words, numbers
        The same memory, as integers and as floats.
    used
        Number of keys, as an array of one element.
    rule
        How the feature is computed.
    """

    words: Words
    numbers: Numbers
    used: NDArray[np.int64]
    rule: TableRule


@jit(inline=True)
def _find(words: Words, key: int) -> int:
    """Return the row of a key, or the empty row where it belongs."""
    mask = words.shape[0] - 2
    # Keys are hashes already, so their lower bits are as good as any.
    row = key & mask
    while words[row, _HASH] != key and words[row, _HASH] != 0:
        row = (row + 1) & mask
    return row


@jit(inline=True)
def _flush(x: float) -> float:
    """Return 0 for negligible sums."""
    if abs(x) < NEGLIGIBLE:
        return 0.0
    return x


@jit(inline=True)
def _add_to_sums(
    words: Words,
    numbers: Numbers,
    rule: TableRule,
    row: int,
    is_new: bool,
    time: int,
    x: float,
    y: float,
) -> None:
    """Add to the sums of a row that halve with time."""
    if is_new:
        words[row, _TIME] = time
    elapsed = time - words[row, _TIME]
    if elapsed < 0:
        # An outcome that comes late: it counts as if it had been there and had halved since.
        factor = np.exp2(elapsed / rule.half_life)
        x *= factor
        y *= factor
    elif elapsed > 0:
        factor = np.exp2(-elapsed / rule.half_life)
        for k in range(rule.n_sums):
            numbers[row, _SUMS + k] = _flush(numbers[row, _SUMS + k] * factor)
        words[row, _TIME] = time
    numbers[row, _SUMS] = _flush(numbers[row, _SUMS] + x)
    if rule.n_sums > 1:
        numbers[row, _SUMS + 1] = _flush(numbers[row, _SUMS + 1] + y)


@jit(inline=True)
def _add_to_window(
    words: Words,
    numbers: Numbers,
    rule: TableRule,
    row: int,
    is_new: bool,
    time: int,
    x: float,
    y: float,
) -> None:
    """Add to the bucket of a time."""
    n = rule.n_buckets
    bucket = time // rule.bucket
    if is_new:
        words[row, _TIME] = bucket
    latest = words[row, _TIME]
    for passed in range(max(latest, bucket - n) + 1, bucket + 1):
        for k in range(rule.n_sums):
            numbers[row, _SUMS + passed % n * rule.n_sums + k] = 0.0
    if bucket > latest:
        words[row, _TIME] = bucket
    if bucket <= latest - n:
        return
    numbers[row, _SUMS + bucket % n * rule.n_sums] += x
    if rule.n_sums > 1:
        numbers[row, _SUMS + bucket % n * rule.n_sums + 1] += y


@jit(inline=True)
def _add_time(words: Words, rule: TableRule, row: int, is_new: bool, time: int) -> None:
    """Record the first and last time of a key."""
    if is_new:
        words[row, _TIME] = time
    if rule.kind == AGE:
        # A key that was absent for longer than ``forget`` starts again.
        if is_new or time - words[row, _TIME] > rule.forget:
            words[row, _SUMS] = time
        words[row, _SUMS] = min(words[row, _SUMS], time)
    words[row, _TIME] = max(words[row, _TIME], time)


@jit(inline=True)
def update(
    words: Words, numbers: Numbers, rule: TableRule, key: int, time: int, x: float, y: float
) -> bool:
    """Add a row: its amounts to the sums of its key and of all keys, or its time.

    Return whether its key is new.
    """
    is_sum = rule.kind < LAST
    # Rows that change nothing take no memory.
    if key == 0 or (is_sum and x == 0.0 and y == 0.0) or (rule.kind == LAST and x <= 0.0):
        return False
    row = _find(words, key)
    is_new = words[row, _HASH] == 0
    if is_new:
        words[row, _HASH] = key
    if not is_sum:
        _add_time(words, rule, row, is_new, time)
        return is_new
    everything = words.shape[0] - 1
    all_new = words[everything, _HASH] == 0
    words[everything, _HASH] = 1
    if rule.n_buckets:
        _add_to_window(words, numbers, rule, row, is_new, time, x, y)
        _add_to_window(words, numbers, rule, everything, all_new, time, x, y)
    else:
        _add_to_sums(words, numbers, rule, row, is_new, time, x, y)
        _add_to_sums(words, numbers, rule, everything, all_new, time, x, y)
    return is_new


@jit(inline=True)
def _sum_at(words: Words, numbers: Numbers, rule: TableRule, row: int, time: int, k: int) -> float:
    """Return a sum of a row at a time."""
    if rule.n_buckets == 0:
        elapsed = time - words[row, _TIME]
        if elapsed <= 0:
            return numbers[row, _SUMS + k]
        return _flush(numbers[row, _SUMS + k] * np.exp2(-elapsed / rule.half_life))
    n, latest, now = rule.n_buckets, words[row, _TIME], time // rule.bucket
    total = 0.0
    for bucket in range(max(latest, now) - n + 1, min(latest, now) + 1):
        total += numbers[row, _SUMS + bucket % n * rule.n_sums + k]
    return _flush(total)


@jit(inline=True)
def overall_rate(words: Words, numbers: Numbers, rule: TableRule, time: int) -> float:
    """Return the rate over all keys at a time; 0 before the first row."""
    everything = words.shape[0] - 1
    if rule.kind != RATE or words[everything, _HASH] == 0:
        return 0.0
    rows = _sum_at(words, numbers, rule, everything, time, 1)
    if rows == 0.0:
        return 0.0
    return _sum_at(words, numbers, rule, everything, time, 0) / rows


@jit(inline=True)
def read(
    words: Words, numbers: Numbers, rule: TableRule, key: int, time: int, overall: float
) -> float:
    """Return the feature of a key at a time, of which ``overall`` is the overall rate."""
    if key == 0:
        return overall if rule.kind == RATE else np.nan
    row = _find(words, key)
    has_row = words[row, _HASH] != 0
    value = np.nan
    if rule.kind == COUNT:
        value = _sum_at(words, numbers, rule, row, time, 0) if has_row else 0.0
    elif rule.kind == RATE:
        positive, rows = 0.0, 0.0
        if has_row:
            positive = _sum_at(words, numbers, rule, row, time, 0)
            rows = _sum_at(words, numbers, rule, row, time, 1)
        if rows + rule.prior != 0.0:
            value = (positive + rule.prior * overall) / (rows + rule.prior)
    elif rule.kind == MEAN:
        weight = _sum_at(words, numbers, rule, row, time, 1) if has_row else 0.0
        if weight != 0.0:
            value = _sum_at(words, numbers, rule, row, time, 0) / weight
    elif has_row and time - words[row, _TIME] <= rule.forget:
        column = _SUMS if rule.kind == AGE else _TIME
        value = (time - words[row, column]) / _HOUR
    if rule.log:
        value = np.copysign(np.log1p(abs(value)), value)
    return value


@jit
def _fetch(words: Words, keys: NDArray[np.int64], first: int, last: int) -> int:
    """Load the rows where keys should be, so that they are in the cache when they are needed.

    The loads do not depend on each other, so the processor waits for many of them at once. Looking
    up one key after the other waits for each. Without the result the loop would be left out.
    """
    mask = words.shape[0] - 2
    result = 0
    for k in range(first, last):
        result ^= words[keys[k] & mask, _HASH]
    return result


@jit
def run(
    table: KeyTable,
    keys: NDArray[np.int64],
    ends: NDArray[np.int64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    read_keys: NDArray[np.int64],
    times: NDArray[np.int64],
    starts: NDArray[np.int64],
    applied: NDArray[np.int64],
    progress: NDArray[np.int64],
    values: NDArray[np.float64],
) -> bool:
    """Read lists in order of time, each after the updates that are visible by then.

    Parameters
    ----------
    keys, ends, x, y
        Key, time and amounts of the updates, in order.
    read_keys, times, starts
        Keys of the rows to read; time and first row of each list, and the end.
    applied
        Number of updates before each list.
    progress
        Next update and next list, where to go on after the table has grown; a number to ignore.
    values
        Result for each row that is read.

    Returns
    -------
    bool
        False if the table is full.
    """
    words, numbers, rule = table.words, table.numbers, table.rule
    limit = MAX_LOAD * (words.shape[0] - 1)
    used, next_update = table.used[0], progress[0]
    for i in range(progress[1], times.shape[0]):
        progress[2] ^= _fetch(words, keys, next_update, min(applied[i], next_update + _FETCHED))
        progress[2] ^= _fetch(words, read_keys, starts[i], min(starts[i + 1], starts[i] + _FETCHED))
        while next_update < applied[i]:
            if used >= limit:
                table.used[0], progress[0], progress[1] = used, next_update, i
                return False
            j = next_update
            used += update(words, numbers, rule, keys[j], ends[j], x[j], y[j])
            next_update += 1
        overall = overall_rate(words, numbers, rule, times[i])
        for r in range(starts[i], starts[i + 1]):
            values[r] = read(words, numbers, rule, read_keys[r], times[i], overall)
    table.used[0] = used
    return True


@jit
def insert_rows(words: Any, rows: Any, selected: Any) -> int:
    """Copy the selected rows into an empty table; return their number.

    -1 means that a key is 0 or occurs twice.
    """
    mask = words.shape[0] - 2
    count = 0
    for i in range(rows.shape[0]):
        key = rows[i, _HASH]
        if not selected[i] or key == 0:
            if selected[i]:
                return -1
            continue
        slot = key & mask
        while words[slot, _HASH] != 0:
            if words[slot, _HASH] == key:
                return -1
            slot = (slot + 1) & mask
        for k in range(rows.shape[1]):
            words[slot, k] = rows[i, k]
        count += 1
    return count


@jit
def mark_live(table: KeyTable, time: int, live: Any) -> None:
    """Mark the keys that a reading after ``time`` can still see."""
    words, numbers, rule = table.words, table.numbers, table.rule
    for row in range(live.shape[0]):
        live[row] = False
        if words[row, _HASH] == 0:
            continue
        if rule.kind >= LAST:
            live[row] = time - words[row, _TIME] <= rule.forget
        elif rule.n_buckets:
            live[row] = words[row, _TIME] > time // rule.bucket - rule.n_buckets
        else:
            for k in range(rule.n_sums):
                live[row] |= _sum_at(words, numbers, rule, row, time, k) != 0.0


@jit
def _read_integer(data: Any, start: int, end: int) -> Any:
    """Return the integer that a text is the usual decimal form of; -2^63 for other texts."""
    other = np.int64(-(2**63))
    first = start
    if end > start and data[start] == _MINUS:
        first += 1
    if not 0 < end - first <= 19:
        return other
    # "007" and "-0" are texts of their own.
    if data[first] == _ZERO and (end - first > 1 or first > start):
        return other
    number = np.int64(0)
    for j in range(first, end):
        digit = np.int64(data[j]) - _ZERO
        # More than 2^63 - 1 is no integer of a column.
        if not 0 <= digit <= 9 or number > (2**63 - 1 - digit) // 10:
            return other
        number = number * 10 + digit
    return -number if first > start else number


@jit
def hash_texts(data: Any, ends: Any, seed: Any, integer_seed: Any, hashes: Any) -> None:
    """Hash texts, given as bytes one after the other: 8 bytes at a time, then the length.

    The text of an integer has the integer's hash.
    """
    start = 0
    for i in range(ends.shape[0]):
        number = _read_integer(data, start, ends[i])
        if number != -(2**63):
            hashes[i] = random_bits(integer_seed, np.uint64(number))
            start = ends[i]
            continue
        state, word = seed, np.uint64(0)
        for j in range(start, ends[i]):
            position = np.uint64(j - start)
            word |= np.uint64(data[j]) << ((position & _MASK) << _SHIFT)
            if (position & _MASK) == _MASK:
                state = random_bits(state, word)
                word = np.uint64(0)
        state = random_bits(state, word)
        hashes[i] = random_bits(state, np.uint64(ends[i] - start))
        start = ends[i]


@jit
def hash_integers(values: Any, seed: Any, hashes: Any) -> None:
    """Hash integers."""
    for i in range(values.shape[0]):
        hashes[i] = random_bits(seed, np.uint64(values[i]))


@jit
def join_hashes(hashes: Any, joined: Any) -> None:
    """Combine hashes of further columns, in order; a missing value makes the key missing."""
    for i in range(hashes.shape[0]):
        if hashes[i] == 0 or joined[i] == 0:
            joined[i] = 0
        else:
            joined[i] = max(random_bits(joined[i], hashes[i]), np.uint64(1))
