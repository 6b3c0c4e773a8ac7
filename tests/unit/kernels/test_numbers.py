"""Decimal text becomes the very bits that Python's float gives."""

from __future__ import annotations

import io
import random
from fractions import Fraction

import numpy as np
import pytest

import rankine
from rankine.data.readers.letor_tokens import nearest
from rankine.kernels.numbers import GOOD, HARD, MALFORMED, parse_number


def spelling(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return repr(rng.uniform(-10, 10))
    if kind == 1:
        return repr(float(np.frombuffer(rng.randbytes(8))[0]))
    if kind == 2:
        return f"{rng.choice(['', '+', '-'])}{rng.randrange(10**6) / 10**5}"
    if kind == 3:
        whole = "".join(rng.choices("0123456789", k=rng.randint(1, 25)))
        part = "".join(rng.choices("0123456789", k=rng.randint(1, 25)))
        power = f"{rng.choice('eE')}{rng.choice(['', '+', '-'])}{rng.randint(0, 340)}"
        return whole + rng.choice(["", f".{part}"]) + rng.choice(["", power])
    if kind == 4:
        return f".{rng.randrange(10**9):09d}e{rng.randint(-330, 320)}"
    # Half way between two doubles, and next to it: where rounding is decided.
    value = Fraction(rng.randrange(2**52, 2**53) * 2 + 1, 2 ** rng.randint(1, 60))
    digits = f"{value.numerator * 10**60 // value.denominator}e-60"
    return rng.choice(["", "0000"]) + digits


def numbers(count, seed):
    rng = random.Random(seed)
    found = [spelling(rng) for _ in range(count)]
    return [text for text in found if "n" not in text and abs(float(text)) != float("inf")]


def load_values(texts, dtype):
    lines = "".join(f"0 qid:1 1:{text}\n" for text in texts).encode()
    return rankine.load(io.BytesIO(lines), dtype=dtype).X[:, 0]


def test_a_hundred_thousand_spellings_equal_float():
    texts = numbers(100_000, 1)
    assert len(texts) > 80_000
    expected = np.array([float(text) for text in texts])
    assert load_values(texts, "float64").tobytes() == expected.tobytes()


def test_labels_equal_float():
    texts = numbers(5_000, 2)
    lines = "".join(f"{text} qid:1 1:1\n" for text in texts).encode()
    expected = np.array([float(text) for text in texts])
    assert rankine.load(io.BytesIO(lines)).y.tobytes() == expected.tobytes()


def exact_float32(text):
    """Nearest float32 by rational arithmetic over the neighbours of the double."""
    value = Fraction(text)
    middle = np.float32(float(text))
    with np.errstate(over="ignore"):
        near = [middle, *(np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf))]
    near = [x for x in near if np.isfinite(x)]
    best = min(abs(Fraction(float(x)) - value) for x in near)
    tied = [x for x in near if abs(Fraction(float(x)) - value) == best]
    return tied[0] if len(tied) == 1 else next(x for x in tied if not x.view(np.uint32) & 1)


def float32_edges(rng, count):
    """Decimals at, just above and just below the middle of two neighbouring floats."""
    for _ in range(count):
        low = np.float32(rng.uniform(0, 1) * 10.0 ** rng.randint(-44, 30))
        high = np.nextafter(low, np.float32(np.inf))
        middle = (Fraction(float(low)) + Fraction(float(high))) / 2
        digits = middle.numerator * 10**160 // middle.denominator
        yield f"{digits + rng.choice([-1, 0, 1])}e-160"


def test_float32_is_rounded_once():
    rng = random.Random(3)
    texts = [text for text in numbers(3_000, 4) if abs(float(text)) < 3.4e38]
    texts += list(float32_edges(rng, 2_000))
    texts += ["16777217", "16777219", "1.000000059604644775390625", "1.0000000596046447753906251"]
    texts += ["3.4028235677973362e38", "1e-45", "7.006492321624085e-46", "7.0064923216240855e-46"]
    expected = np.array([exact_float32(text) for text in texts], dtype=np.float32)
    found = load_values(texts, "float32")
    assert found.dtype == np.float32
    assert np.abs(found).tobytes() == np.abs(expected).tobytes()


@pytest.mark.parametrize("text", ["3.4028235677973367e38", "1e39", "-4e38", "1e200"])
def test_float32_overflow_is_refused(text):
    with pytest.raises(rankine.core.errors.LimitError, match="too large"):
        load_values([text], "float32")


def test_the_largest_float32_survives_a_decimal_below_the_edge():
    text = "340282356779733661637539395458142568447.9999"
    assert load_values([text], "float32")[0] == np.finfo(np.float32).max
    assert nearest(text.encode(), "float32") == float(np.finfo(np.float32).max)


def test_a_million_digits_are_no_hang():
    text = "0." + "0" * 500_000 + "1" * 500_000 + "e500001"
    assert load_values([text], "float64")[0] == float(text)


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("text", "status"),
    [
        *((text, GOOD) for text in ("1", ".5", "-1e-7", "00000000000000000000001", "0e999")),
        *((text, GOOD) for text in ("9007199254740993", "8.5e23", "123456789012345678e-200")),
        *((text, MALFORMED) for text in ("", "-", "1.", "1e", ".e1", "+.")),
        *((text, HARD) for text in ("12345678901234567890", "1e400", "1e-320")),
    ],
)
def test_the_kernel_decides_or_says_so(text, status):
    buffer = np.frombuffer(f"{text} ".encode(), dtype=np.uint8)
    with np.errstate(over="ignore"):
        found, value, stop = parse_number(buffer, np.uint64(0))
    assert found == status
    if status == GOOD:
        assert value == float(text)
        assert stop == len(text)


@pytest.mark.kernels
def test_many_numbers_that_need_all_their_digits_stand_in_one_block():
    texts = [f"0.{'123456789' * 3}{k:03d}" for k in range(200)]
    expected = np.array([float(text) for text in texts])
    assert load_values(texts, "float64").tobytes() == expected.tobytes()
