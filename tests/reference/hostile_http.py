"""Generate hostile requests: changed JSON, and bytes that are not a request."""

from __future__ import annotations

import json
import random

BODIES = [
    {"model": "shop", "items": [{"id": "a", "features": {"feature_1": 1.5, "feature_2": -2}}] * 2},
    {"model": "scaled", "items": [{"features": {"feature_1": i}} for i in range(3)], "k": 2},
    {"model": "plain", "items": [{"indices": [0, 3], "values": [1, 2.5]}], "explain": 2},
    {"model": "topics/earn", "lists": [{"id": 7, "items": [{"raw": {"x": 1}}]}, {"items": []}]},
    {"model": "shop", "items": [{"features": {"other": 1}}], "unknown": "zero", "explain": True},
    {"model": "shop", "items": [{"raw": {"feature_1": 1}}], "context": {"feature_2": 2}},
    {"model": "log", "items": [{"raw": {"price": 1, "shop": "north", "brand": "b"}}], "explain": 1},
]
VALUES = [
    None, True, False, 0, -1, 1, 1.5, 1e308, -1e308, 5e-324, 2**31, 2**63, 2**64, 10**30, "", "a",
    "shop", "\u0000", "\ud83d\ude00", "../shop", [], {}, [[]], [{}], {"": 0}, [1] * 50, "x" * 3000,
    "topics/grain", "zero", {"features": {}}, {"feature_1": 1e308, "feature_2": 1e308},
]  # fmt: skip
BYTES = [b"", b"\x00", b"\xff", b'"', b"{", b"}", b"[", b"]", b":", b",", b"\\", b"\\u", b"1e999"]
BYTES += [b"NaN", b"Infinity", b"-", b"0", b"9" * 400, b"1e-999", b"\xed\xa0\x80", b'"a":1,', b"\n"]


def mutate_value(value, rng, depth=0):
    """Return a structure with one or two parts replaced, removed or doubled."""
    if rng.random() < 0.15 + 0.1 * depth:
        return rng.choice(VALUES)
    if isinstance(value, dict) and value:
        found = dict(value)
        key = rng.choice(list(found))
        kind = rng.randrange(5)
        if kind == 0:
            del found[key]
        elif kind == 1:
            found[rng.choice(["id", "k", "raw", "values", "explain", "", "x"])] = rng.choice(VALUES)
        else:
            found[key] = mutate_value(found[key], rng, depth + 1)
        return found
    if isinstance(value, list) and value:
        found = list(value)
        at = rng.randrange(len(found))
        found[at] = mutate_value(found[at], rng, depth + 1)
        return found * rng.choice([1, 1, 1, 2])
    return rng.choice(VALUES)


def mutate_bytes(data, rng):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        if rng.random() < 0.5:
            data[at:at] = rng.choice(BYTES)
        else:
            data[at : at + rng.randint(1, 6)] = rng.choice(BYTES)
    return bytes(data)


def body(rng):
    """Return a request body with changed structure or bytes; one in eight is valid."""
    if rng.random() < 0.125:
        features = [
            {f"feature_{rng.randrange(20)}": rng.choice((rng.random(), rng.randrange(-9, 9)))}
            for _ in range(rng.randrange(6))
        ]
        return json.dumps({"model": "shop", "items": [{"features": f} for f in features]}).encode()
    value = rng.choice(BODIES)
    if rng.random() < 0.05:
        key = rng.choice(list(value))
        again = json.dumps({key: value[key]})[1:-1]
        return json.dumps(value)[:-1].encode() + b", " + again.encode() + b"}"
    if rng.random() < 0.5:
        return json.dumps(mutate_value(value, rng)).encode()
    return mutate_bytes(json.dumps(value).encode(), rng)


def raw_cases():
    """Return raw cases of smuggling, broken framing and floods."""
    post = b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = b'{"items":[]}'
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256))
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield b"\x00" * 500
    yield b"\r\n" * 500
    yield b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 3000 + b"\r\n"
    yield b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    yield b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A" * 30_000 + b": b\r\n\r\n"
    yield b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"b" * 2_000_000
    for length in (
        b"-1",
        b"+12",
        b"0x0c",
        b"12,12",
        b"1 2",
        b"12\x00",
        b"\xb2",
        b"1e1",
        b"",
        b"_12",
    ):
        yield post + b"Content-Length: " + length + b"\r\n\r\n" + body
    for second in (b"12", b"13", b"0", b"99999999999999999999"):
        yield post + b"Content-Length: 12\r\nContent-Length: " + second + b"\r\n\r\n" + body
    codings = [
        b"chunked",
        b"Chunked",
        b"identity",
        b"gzip",
        b"chunked, chunked",
        b"\tchunked",
        b"x",
    ]
    for coding in codings:
        line = b"Transfer-Encoding: " + coding + b"\r\n"
        yield post + b"Content-Length: 12\r\n" + line + b"\r\n" + body
        yield post + line + b"Content-Length: 12\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n"
    for name in (
        b"Transfer-Encoding ",
        b" Transfer-Encoding",
        b"Transfer\x00Encoding",
        b"Transfer-\r\n Encoding",
    ):
        yield post + name + b": chunked\r\n\r\n0\r\n\r\n"
    sizes = [b"-1", b"+1", b"0x1", b"g", b"", b" 1", b"1 ", b"1;a=b", b"100000000", b"ffffffffffff"]
    sizes += [b"1\n", b"1\r", b"\xb2", b"1_0", b"1,1"]
    for size in sizes:
        yield chunked + size + b"\r\nx\r\n0\r\n\r\n"
    for end in (
        b"x\r\n0\r\n\r\n",
        b"\n0\r\n\r\n",
        b"\r\n0\r\nA: b\r\n\r\n",
        b"\r\n0\r\n\n",
        b"\r\n0\n\r\n",
    ):
        yield chunked + b"c\r\n" + body + end
    for method in (b"get", b"G ET", b"", b"GET\x00", b"G" * 50, b"\xff\xfe", b"{}"):
        yield method + b" /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for target in (
        b"*",
        b"http://localhost/",
        b"healthz",
        b"",
        b"/a b",
        b"/\x00",
        b"/\xff",
        b"/#a",
        b"localhost:80",
    ):
        yield b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for version in (
        b"HTTP/1.2",
        b"HTTP/2",
        b"HTTP/0.9",
        b"http/1.1",
        b"HTTP/1.1x",
        b"HTTP/11",
        b"",
    ):
        yield b"GET /healthz " + version + b"\r\nHost: localhost\r\n\r\n"
    for host in (
        b"Host: a\r\nHost: b",
        b"Host:",
        b"Hos t: a",
        b": a",
        b"Host; a",
        b"X: 1",
        b"Host: a\x00",
    ):
        yield b"GET /healthz HTTP/1.1\r\n" + host + b"\r\n\r\n"
    for fault in (
        b"A: b\nC: d",
        b"A: b\rC: d",
        b"A: b\r\n c",
        b"A: \x01",
        b"A: \x7f",
        b"A\x80: b",
        b"A",
    ):
        yield b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + fault + b"\r\n\r\n"
    for body_method in (b"GET", b"HEAD"):
        yield (
            body_method
            + b" /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n"
            + body
        )
    rng = random.Random(23)
    good = post + b"Content-Length: 12\r\n\r\n" + body
    for _ in range(110):  # every byte of the head matters
        at = rng.randrange(0, good.index(b"Content-Type"))
        yield good[:at] + bytes([rng.choice([0, 1, 9, 10, 13, 127, 200, 255])]) + good[at + 1 :]


def traversals(folder):
    """Return model names that are paths of files."""
    rng = random.Random(1)
    parts = ["..", "../", "..\\", "%2e%2e/", "%252e%252e%252f", "..%2f", "..%c0%af", ".", "/", "\\"]
    parts += [
        "~",
        "\x00",
        "%00",
        "shop",
        "shop.rankine",
        "etc",
        "passwd",
        "file:",
        "C:",
        "|",
        "$()",
    ]
    parts += [
        "\u2024\u2024/",
        "\uff0e\uff0e\uff0f",
        "\u2215",
        "topics",
        "earn",
        ";",
        "*",
        "?",
        "{0}",
    ]
    fixed = ["/etc/passwd", str(folder / "shop.rankine"), "../models/shop", "shop/../shop", "shop/"]
    fixed += [
        "topics/../earn",
        "topics//earn",
        "topics/./earn",
        "shop\x00.rankine",
        "./shop",
        "SHOP",
    ]
    yield from fixed
    for _ in range(500 - len(fixed)):
        yield "".join(rng.choices(parts, k=rng.randint(2, 5)))
