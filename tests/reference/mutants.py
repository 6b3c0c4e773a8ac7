"""Mutate LETOR files: flip bytes, move tokens, cut lines, swap spellings."""

from __future__ import annotations

import random

SEEDS = (
    b"2 qid:10 1:0.5 2:0 45:0.1 #docid = 1234\n0 qid:10 1:1e-3 3:-7 # d2\n1 qid:11 2:.25\n",
    (
        b"0 qid:-3 1:0.049554 46:1.000000 #docid = GX000-01-8011551 inc = 1 prob = 0.278009\r\n"
        b"1 qid:4 46:3 7:2\r\n\r\n# comment\r\n-1 qid:4\r\n"
    ),
    b"4\tqid:1\t1:9.83\t2:12.31\t# 7555\trambo\n3\tqid:1\t2:10.7 1:NULL # 1370 rambo\n",
    (
        b"  0.1234567890123456789 qid:9223372036854775807 1:123456789012345678901234567890e-20\n"
        b"1e308 qid:0 2147483647:2.2250738585072011e-308 3:4.9e-324\n"
    ),
)

SPELLINGS = (
    b"NaN", b"nan", b"NULL", b"inf", b"-inf", b"1e400",
    b"1e-400", b"0x1p3", b"1_000", b"0,1", b"1.",
    b".5", b"+1", b"--1", b"1e", b"1e+", b"1:2:3", b"1:", b":1", b"1", b"", b"qid:", b"qid:1",
    b"qid:a", b"qid:1.0", b"qid:9223372036854775808", b"qid:-9223372036854775808", b"0:1",
    b"2147483648:1", b"4294967297:1", b"99999999999999999999:1", b"#", b"# x", b"#docid = y", b"\r",
    b"\n", b"\r\n", b"\t", b"\0", b"\xff", b"\xc3\xa9", b"\x0b", b"1:\xd9\xa1", b"cost:1", b"good",
    b"007:1", b"1:1e5", b"1:9007199254740993", b"1:5e-324", b"1:1.7976931348623159e308", b" ",
)  # fmt: skip


def mutant(rng: random.Random) -> bytes:
    """Make one to four changes of a random seed file."""
    data = rng.choice(SEEDS)
    for _ in range(rng.randint(1, 4)):
        data = _change(data, rng)
    return data


def _change(data: bytes, rng: random.Random) -> bytes:
    place = rng.randint(0, len(data))
    kind = rng.randrange(7)
    if kind == 0:
        return data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
    if kind == 1:
        return data[:place] + rng.choice(SPELLINGS) + data[place:]
    if kind == 2:
        return data[:place] + data[place + rng.randint(1, 6) :]
    if kind == 3:
        return data[:place]
    if kind == 4:
        other = rng.randint(0, len(data))
        return data[:place] + data[other : other + rng.randint(1, 30)] + data[place:]
    if kind == 5:
        lines = data.split(b"\n")
        rng.shuffle(lines)
        return b"\n".join(lines)
    tokens = data.split(b" ")
    tokens[rng.randrange(len(tokens))] = rng.choice(SPELLINGS)
    return b" ".join(tokens)
