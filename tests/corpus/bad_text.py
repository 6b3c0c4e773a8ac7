"""Hand-made bad LETOR files: what is wrong, where, and which error must say so."""

from __future__ import annotations

from typing import Any, NamedTuple


class Bad(NamedTuple):
    name: str
    data: bytes
    code: str
    line: int | None
    column: int | None
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)


GOOD = b"2 qid:1 1:0.5 3:-2e-3 # a\n0 qid:1 2:7 # b\n1 qid:2 1:1\n"


def second(row: bytes) -> bytes:
    """A file whose second line is the given one."""
    return b"1 qid:1 1:0.5\n" + row + b"\n2 qid:1 1:0.25\n"


#: Faults 1 and 17: spellings of a value that are no finite decimal number.
_VALUES = (
    b"-nan", b"+nan", b"inf", b"-inf", b"+inf", b"Inf", b"INF", b"infinity",
    b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"1e309", b"1.8e308", b"NA",
    b"None", b"?", b"1e999999999999", b"0.1x", b"0x1p3", b"0x10", b"1_000", b"0,1", b"1.", b"1.e5",
    b".", b"", b"+", b"-", b"e5", b"1e", b"1e+", b"1e5.0", b"1:2", b"1.2.3", b"--1", b"+-1", b"1f",
    b"1d0", b"0b1", b"\xd9\xa1", b"\xef\xbc\x91", b"1\xc2\xa0", b"'1'", b'"1"', b"(1)", b"1/2",
    b"50%", b"$5", b"true", b"1e5e5", b"\x00", b"1\x00", b"\xff", b"1\x0b", b"1\x0c2",
)  # fmt: skip

_LARGE = {b"1e400", b"-1e400", b"1e309", b"1.8e308", b"1e999999999999"}

#: Fault 2: labels that are no number.
_LABELS = (
    b"good", b"nan", b"inf", b"-inf", b"1e400", b"NULL", b"1:1", b"qid:1", b"0x1", b"1_0", b"1,5",
    b"1.", b"\xff", b"\x00", b"+", b"relevant", b"None", b"true", b"1e", b"2:0.5",
)  # fmt: skip

#: Fault 11: query ids that are no 64-bit integers.
_QIDS = (
    (b"a", "parse"), (b"1.0", "parse"), (b"1e3", "parse"), (b"", "parse"), (b"0x1", "parse"),
    (b"--1", "parse"), (b"1_0", "parse"), (b"9223372036854775808", "limit"), (b"+", "parse"),
    (b"-9223372036854775809", "limit"), (b"18446744073709551616", "limit"), (b"1:2", "parse"),
    (b"99999999999999999999999", "limit"), (b"\xff", "parse"), (b"nan", "parse"),
    (b"1\x00", "parse"),
)  # fmt: skip

CORPUS: list[Bad] = [
    *(
        Bad(f"value {value!r}", second(b"1 qid:1 2:" + value),
            "limit" if value in _LARGE else "parse", 2, 11)
        for value in _VALUES
    ),
    *(
        Bad(f"label {label!r}", second(label + b" qid:1 2:1"),
            "limit" if label == b"1e400" else "parse", 2, 1)
        for label in _LABELS
    ),
    *(Bad(f"qid {qid!r}", second(b"1 qid:" + qid + b" 1:1"), code, 2, 7) for qid, code in _QIDS),
    Bad("qid text not UTF-8", second(b"1 qid:\xff 1:1"), "parse", 2, 7, {"qid_type": "str"}),
    Bad("qid text empty", second(b"1 qid: 1:1"), "parse", 2, 7, {"qid_type": "str"}),
    Bad("qid text with NUL", second(b"1 qid:a\0b 1:1"), "parse", 2, 7, {"qid_type": "str"}),
    Bad("qid missing on a row", second(b"1 2:1"), "query-order", 2, 3),
    Bad("qid missing, no features", second(b"1"), "query-order", 2, 2),
    Bad("qid missing everywhere", b"1 1:1\n0 2:1\n", "query-order", 1, 3),
    Bad("qid late", second(b"1 2:1 qid:1"), "query-order", 2, 3),
    Bad("qid twice", second(b"1 qid:1 qid:1 2:1"), "parse", 2, 9),
    Bad("qid in a file with group", b"1 qid:1 1:1\n", "query-order", 1, 3, {"group": [1]}),
    Bad("index 0 in base 1", second(b"1 qid:1 0:1"), "parse", 2, 9),
    Bad("index 00 in base 1", second(b"1 qid:1 00:1"), "parse", 2, 9),
    Bad("index negative", second(b"1 qid:1 -1:1"), "parse", 2, 9),
    Bad("index signed", second(b"1 qid:1 +1:1"), "parse", 2, 9),
    Bad("index fraction", second(b"1 qid:1 1.0:1"), "parse", 2, 9),
    Bad("index text", second(b"1 qid:1 price:1"), "parse", 2, 9),
    Bad("index 2^31", second(b"1 qid:1 2147483648:1"), "limit", 2, 9),
    Bad("index 2^32 + 1", second(b"1 qid:1 4294967297:1"), "limit", 2, 9),
    Bad("index 2^63", second(b"1 qid:1 9223372036854775808:1"), "limit", 2, 9),
    Bad("index 2^64 + 1", second(b"1 qid:1 18446744073709551617:1"), "limit", 2, 9),
    Bad("index 10^25", second(b"1 qid:1 10000000000000000000000000:1"), "limit", 2, 9),
    Bad("index above n_features", second(b"1 qid:1 4:1"), "limit", 2, 9, {"n_features": 3}),
    Bad("index = n_features in base 0", second(b"1 qid:1 3:1"), "limit", 2, 9,
        {"n_features": 3, "base": 0}),
    Bad("index above max_features", second(b"1 qid:1 11:1"), "limit", 2, 9, {"max_features": 10}),
    Bad("duplicate neighbours", second(b"1 qid:1 2:1 2:1"), "parse", 2, 13),
    Bad("duplicate apart", second(b"1 qid:1 2:1 5:1 1:1 2:3"), "parse", 2, 21),
    Bad("duplicate with zeros", second(b"1 qid:1 2:1 002:1"), "parse", 2, 13),
    Bad("index without value", second(b"1 qid:1 2"), "parse", 2, 9),
    Bad("index without colon", second(b"1 qid:1 2=3"), "parse", 2, 9),
    Bad("blank before colon", second(b"1 qid:1 2 :3"), "parse", 2, 9),
    Bad("blank after colon", second(b"1 qid:1 2: 3"), "parse", 2, 11),
    Bad("blank after qid colon", second(b"1 qid: 1 2:3"), "parse", 2, 7),
    Bad("SVMlight cost", second(b"1 qid:1 cost:2 2:3"), "parse", 2, 9),
    Bad("lone CR between rows", b"1 qid:1 1:1\r0 qid:1 1:2\n", "parse", 1, 12),
    Bad("lone CR in a comment", b"1 qid:1 1:1 # a\r0 qid:1 1:2\n", "parse", 1, 16),
    Bad("lone CR at the end", b"1 qid:1 1:1\n1 qid:1 1:1\r", "parse", 2, 12),
    Bad("CR CR LF", b"1 qid:1 1:1\r\r\n", "parse", 1, 12),
    Bad("cut after colon", b"1 qid:1 1:1\n1 qid:1 2:", "parse", 2, 11),
    Bad("cut after point", b"1 qid:1 1:1\n1 qid:1 2:0.", "parse", 2, 11),
    Bad("cut in the exponent", b"1 qid:1 1:1\n1 qid:1 2:1e-", "parse", 2, 11),
    Bad("cut in the index", b"1 qid:1 1:1\n1 qid:1 23", "parse", 2, 9),
    Bad("cut in qid", b"1 qid:1 1:1\n1 qi", "query-order", 2, 3),
    Bad("no final newline when required", b"1 qid:1 1:1", "parse", 1, None,
        {"require_final_newline": True}),
    Bad("NUL bytes between tokens", second(b"1 qid:1 2:1\0 3:1"), "parse", 2, 11),
    Bad("NUL line", second(b"\0\0\0\0"), "parse", 2, 1),
    Bad("vertical tab as separator", second(b"1 qid:1\x0b2:1"), "parse", 2, 7),
    Bad("no-break space as separator", second(b"1 qid:1 2:1\xc2\xa03:1"), "parse", 2, 11),
    Bad("semicolons", second(b"1;qid:1;2:1"), "parse", 2, 1),
    Bad("long line", second(b"1 qid:1 2:1 # " + b"x" * 100), "limit", 2, None,
        {"max_line_bytes": 60}),
    Bad("empty file", b"", "empty", None, None),
    Bad("newlines only", b"\n\r\n\n", "empty", None, None),
    Bad("comments only", b"# a\n# b", "empty", None, None),
    Bad("blanks only", b"  \t \n", "empty", None, None),
]  # fmt: skip
