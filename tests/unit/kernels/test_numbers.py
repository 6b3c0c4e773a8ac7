"""Decimal text becomes the very bits that Python's float gives."""

from __future__ import annotations

import io
import random
from fractions import Fraction

import numpy as np
import pytest

import rankine
from rankine.data.readers.letor_tokens import nearest
from rankine.kernels import numbers as kernel
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


def parsed(text, end=" "):
    """(status, bits of the value, end) by the kernel."""
    buffer = np.frombuffer(f"{text}{end}".encode("latin-1"), dtype=np.uint8)
    with np.errstate(over="ignore"):
        status, value, stop = parse_number(buffer, np.uint64(0))
    return status, np.float64(value).tobytes(), int(stop)


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


@pytest.mark.kernels
def test_float32_is_rounded_once():
    rng = random.Random(3)
    texts = [text for text in numbers(800, 4) if abs(float(text)) < 3.4e38]
    texts += list(float32_edges(rng, 800))
    texts += ["16777217", "16777219", "1.000000059604644775390625", "1.0000000596046447753906251"]
    texts += ["3.4028235677973362e38", "1e-45", "7.006492321624085e-46", "7.0064923216240855e-46"]
    expected = np.array([exact_float32(text) for text in texts], dtype=np.float32)
    found = load_values(texts, "float32")
    assert found.dtype == np.float32
    assert np.abs(found).tobytes() == np.abs(expected).tobytes()


@pytest.mark.kernels
@pytest.mark.parametrize("text", ["3.4028235677973367e38", "1e39", "-4e38", "1e200", "-1e39"])
def test_float32_overflow_is_refused(text):
    with pytest.raises(rankine.core.errors.LimitError, match="too large"):
        load_values([text], "float32")


@pytest.mark.kernels
@pytest.mark.parametrize("sign", ["", "-"])
def test_the_largest_float32_survives_a_decimal_below_the_edge(sign):
    text = f"{sign}340282356779733661637539395458142568447.9999"
    largest = float(f"{sign}1") * np.finfo(np.float32).max
    assert load_values([text], "float32")[0] == largest
    assert nearest(text.encode(), "float32") == float(largest)
    edge = f"{sign}340282356779733661637539395458142568448"
    assert nearest(edge.encode(), "float32") == float(f"{sign}inf")
    assert nearest(edge.encode(), "float64") == float(edge)


def test_the_nearest_float32_is_told_from_the_text():
    rng = random.Random(5)
    exact = [f"{rng.choice(['', '-'])}{rng.randrange(2**24)}e0" for _ in range(20)]
    for text in [*float32_edges(rng, 300), *exact, "16777217", "16777219", "-16777217", "0.1"]:
        assert nearest(text.encode(), "float32") == float(exact_float32(text))
        assert nearest(text.encode(), "float64") == float(text)


def test_a_million_digits_are_no_hang():
    text = "0." + "0" * 500_000 + "1" * 500_000 + "e500001"
    assert load_values([text], "float64")[0] == float(text)


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("text", "status"),
    [
        *((text, GOOD) for text in ("1", ".5", "-1e-7", "00000000000000000000001", "0e999")),
        *((text, GOOD) for text in ("9007199254740993", "8.5e23", "123456789012345678e-200")),
        *((text, GOOD) for text in ("0.1234567890123456789", "-0", "+5e+3", "-0e-5000", "1E5")),
        *((text, GOOD) for text in ("9999999999999999999e-326", "1e307", "5e-20", "7e23", "7e22")),
        *((text, GOOD) for text in ("2.2250738585072014e-308", "1e0000000000000000000007")),
        *((text, MALFORMED) for text in ("", "-", "1.", "1e", ".e1", "+.", "1e+", "e5", "1.5e-")),
        *((text, HARD) for text in ("12345678901234567890", "1e400", "1e-320", "1e308")),
        *((text, HARD) for text in ("0.12345678901234567891", "9999999999999999999e-327")),
        *((text, HARD) for text in ("2.2250738585072011e-308", "1.7976931348623159e308")),
        *((text, HARD) for text in ("1e-99999999999999999999", "1e99999999999999999999")),
    ],
)
def test_the_kernel_decides_or_says_so(text, status):
    found, bits, stop = parsed(text)
    assert found == status
    if status == GOOD:
        assert bits == np.float64(text).tobytes()
        assert stop == len(text)


@pytest.mark.kernels
def test_the_kernel_gives_the_bits_of_float():
    for text in numbers(1500, 6):
        status, bits, stop = parsed(text)
        digits = text.lower().partition("e")[0].lstrip("+-").replace(".", "").lstrip("0")
        normal = 2.3e-308 < abs(float(text)) < 8e307 or not digits
        assert status == (GOOD if len(digits) <= 19 and normal else HARD), text
        assert status == HARD or bits == np.float64(text).tobytes(), text
        assert stop == len(text)


@pytest.mark.kernels
@pytest.mark.parametrize("text", ["12", "-3.5", ".25", "1e15", "1.5E-15"])
def test_a_number_ends_where_the_grammar_ends(text):
    more = "0123456789" + (".eE" if text == "12" else "eE" if "e" not in text.lower() else "")
    for code in range(256):
        if chr(code) not in more:
            assert parsed(text, chr(code)) == (GOOD, np.float64(text).tobytes(), len(text))


def test_the_powers_of_five_are_128_bits_and_rounded_to_one_side():
    assert len(kernel._FIVES) == kernel._Q_MAX - kernel._Q_MIN + 1
    for q, (high, low) in zip(range(kernel._Q_MIN, kernel._Q_MAX + 1), kernel._FIVES, strict=True):
        word = int(high) << 64 | int(low)
        assert word.bit_length() == 128
        # word 2^k is 5^q, but for its last bits: at most one of them is wrong, and to one side
        above, below = (1, 5**-q) if q < 0 else (5**q, 1)
        k = above.bit_length() - below.bit_length() - 127 - (q < 0)
        exact, found = above << max(-k, 0), (word * below) << max(k, 0)
        step = below << max(k, 0)
        assert exact < found < exact + step if -27 <= q < 0 else exact - step < found <= exact, q


@pytest.mark.kernels
def test_products_of_two_words():
    rng = random.Random(7)
    edges = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    for a, b in [*((a, b) for a in edges for b in edges), *hard_products(rng, 50)]:
        with np.errstate(over="ignore"):
            high, low = kernel._multiply(np.uint64(a), np.uint64(b))
        assert (int(high) << 64 | int(low)) == a * b


def hard_products(rng, count):
    for _ in range(count):
        yield rng.getrandbits(64), rng.getrandbits(64)


def halves(rng):
    """(m, q): m 10^q is half way between two doubles, or nearly so."""
    for q in range(-4, 24):
        low, high = (2**54 // 5**q, 2**55 // 5**q) if q >= 0 else (2**54, 2**55)
        for _ in range(6):
            m = (rng.randrange(low // 2, high // 2) | 1) * 5 ** max(-q, 0)
            while m * 2 < 2**63 and rng.random() < 0.8:
                m *= 2
            yield from ((k, q) for k in (m - 1, m, m + 1) if 0 < k < 2**64)


def carries(rng):
    """(m, q) where the second word of 5^q may decide."""
    while True:
        m, q = rng.getrandbits(64) | 1 << 63, rng.randrange(-300, 280)
        word = int(kernel._FIVES[q - kernel._Q_MIN, 0])
        if (m * word >> 64) & 0x1FF == 0x1FF:
            yield m, q


@pytest.mark.kernels
def test_nineteen_digits_and_a_power_of_ten_are_rounded_to_the_nearest_double():
    rng = random.Random(8)
    drawn = [
        (rng.getrandbits(rng.randint(1, 64)) | 1, rng.randrange(-280, 280)) for _ in range(200)
    ]
    whole = [(2**64 - 1, 0), (2**63 + 0x3FE, 0), (2**63 + 2048 + 0x3FE, 0), (2**53 + 1, 0)]
    whole += [(2**63 + 2048 * k + j, 0) for k in (0, 1) for j in (1023, 1024, 1025, 1536)]
    close = carries(rng)
    for m, q in [*drawn, *whole, *halves(rng), *(next(close) for _ in range(150))]:
        with np.errstate(over="ignore"):
            decided, value = kernel._eisel_lemire(np.uint64(m), np.int64(q))
        assert decided, (m, q)
        assert value == float(f"{m}e{q}"), (m, q)


@pytest.mark.kernels
def test_many_numbers_that_need_all_their_digits_stand_in_one_block():
    texts = [f"0.{'123456789' * 3}{k:03d}" for k in range(200)]
    expected = np.array([float(text) for text in texts])
    assert load_values(texts, "float64").tobytes() == expected.tobytes()
