"""Thousands of requests that no honest client sends: each is answered, none with 5xx."""

import json
import random

import pytest

from integration.serve.serve_tools import encode_request, read_reply

pytestmark = pytest.mark.reliability

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
    """A structure with one or two parts replaced, removed or doubled."""
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


def bodies(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        value = rng.choice(BODIES)
        if rng.random() < 0.5:
            yield json.dumps(mutate_value(value, rng)).encode()
        else:
            yield mutate_bytes(json.dumps(value).encode(), rng)


def resident(server):
    return server.metric("resident_memory_bytes")


def test_fuzzed_bodies_get_a_reply_below_500(server):
    statuses = {}
    connection = server.connect()
    for i, body in enumerate(bodies(2000, seed=17)):
        if i == 500:
            before = resident(server)
        path = "/v1/rank" if i % 3 else "/v1/score"
        connection.sendall(encode_request("POST", path, body))
        status, _, reply = read_reply(connection)
        statuses[status] = statuses.get(status, 0) + 1
        assert status in {200, 400, 404, 413, 422}, (status, body)
        assert (status == 200) == ("error" not in json.loads(reply)), body
        if status == 200:
            assert b"null" not in reply.replace(b'"id":null', b""), "a number that is not finite"
    connection.close()
    assert statuses[200] > 100
    assert statuses[400] > 100
    assert statuses[422] > 100
    assert resident(server) - before < 5 * 2**20
    assert server.request("GET", "/readyz")[0] == 200


def raw_cases():
    """Smuggling, broken framing, floods: bytes that are no request, or two at once."""
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


def test_raw_bytes_get_4xx_or_a_closed_door(server):
    count = 0
    for data in raw_cases():
        found = server.raw(data)
        count += 1
        statuses = [part[:3] for part in found.split(b"HTTP/1.1 ")[1:]]
        assert all(status.startswith(b"4") for status in statuses), (data[:200], found[:200])
        assert len(statuses) <= 1, "one set of bytes was taken for two requests"
        assert b"Traceback" not in found
    assert count >= 200
    assert server.request("GET", "/readyz")[0] == 200
