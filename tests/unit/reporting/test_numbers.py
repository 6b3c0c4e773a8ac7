"""Numbers are short and exact enough."""

from __future__ import annotations

import math

from rankine.reporting.numbers import MINUS, NONE, number, parameter_text, percent, plural, signed

PERCENT = "\N{NO-BREAK SPACE}%"


def test_numbers_are_short_and_exact_enough():
    read = {
        None: NONE, math.nan: NONE, math.inf: NONE, 0.0: "0.0000", 0.5: "0.5000", 0.001: "0.0010",
        0.00099: "0.00099", 9.5: "9.5000", 10.0: "10.00", 999.5: "999.50", 1000.0: "1e+03",
        -0.25: "-0.2500", -12.0: "-12.00", 123456.0: "1.23e+05",
    }  # fmt: skip
    assert {value: number(value) for value in read} == read
    assert (number(3.14159, 2), number(31.4, 3), number(31.4, 2)) == ("3.14", "31.4", "31")
    with_sign = {None: NONE, math.nan: NONE, 0.0: "+0.0000", 0.5: "+0.5000", -0.5: f"{MINUS}0.5000"}
    assert {value: signed(value) for value in with_sign} == with_sign
    assert (percent(0.125), percent(0.125, 1), percent(None), percent(math.nan)) == (
        f"12{PERCENT}", f"12.5{PERCENT}", NONE, NONE,
    )  # fmt: skip
    assert [plural(n, "query", "queries") for n in (0, 1, 1200)] == [
        "0 queries", "1 query", "1,200 queries",
    ]  # fmt: skip
    assert [plural(n, "item") for n in (1, 2)] == ["1 item", "2 items"]
    assert [parameter_text(v) for v in (None, 0.1 + 0.2, 3, "a")] == ["none", "0.3", "3", "a"]
