"""Requests from bytes: what is taken, every parser reads alike; the rest is refused."""

import random

import h11
import pytest

from rankine.serve.connection import BadRequest, RequestReader
from rankine.serve.limits import Limits

LIMITS = Limits(header_bytes=2048, body_bytes=4096, header_fields=16)
GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /v1/rank HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
CHUNKED = (
    b"POST /v1/rank HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
)


def read(data, step=None, limits=LIMITS):
    """All requests in some bytes, fed in pieces; the status instead where one is bad."""
    reader = RequestReader(limits)
    found = []
    try:
        for at in range(0, len(data), step or len(data) or 1):
            reader.feed(data[at : at + (step or len(data))])
            while request := reader.next():
                found.append(request)
    except BadRequest as error:
        found.append(error.status)
    return found


@pytest.mark.parametrize("step", [None, 1, 2, 3, 7])
@pytest.mark.parametrize("data", [GET, POST, CHUNKED, POST + GET + CHUNKED + POST])
def test_pieces_do_not_matter(data, step):
    assert read(data, step) == read(data)
    assert all(not isinstance(request, int) for request in read(data))


def test_a_request_is_read_unchanged():
    (request,) = read(POST.replace(b"Host: a", b"Host:  a b \r\nX-y: \t1, 2"))
    assert (request.method, request.target) == (b"POST", b"/v1/rank")
    assert request.fields == {b"host": b"a b", b"x-y": b"1, 2", b"content-length": b"4"}
    assert request.body == b"body"
    assert not request.close
    assert read(CHUNKED)[0].body == b"abcd"


def with_line(line):
    return b"POST / HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n\r\nbody"


@pytest.mark.parametrize(
    "data",
    [
        b" " + GET,
        GET.replace(b"\r\n", b"\n"),
        GET.replace(b"\r\n", b"\r"),
        GET.replace(b"HTTP/1.1", b"HTTP/1.2"),
        GET.replace(b"HTTP/1.1", b"HTTP/2.0"),
        GET.replace(b"HTTP/1.1", b"http/1.1"),
        GET.replace(b" HTTP/1.1", b""),
        GET.replace(b"GET ", b"GET\t"),
        GET.replace(b"GET", b"get"),
        GET.replace(b"GET", b"G@T"),
        GET.replace(b"/healthz", b"healthz"),
        GET.replace(b"/healthz", b"*"),
        GET.replace(b"/healthz", b"http://a/healthz"),
        GET.replace(b"/healthz", b"/heal\x00thz"),
        GET.replace(b"/healthz", b"/heal\xffthz"),
        GET.replace(b"/healthz", b"/a b"),
        GET.replace(b"/healthz", b"/a#b"),
        GET.replace(b"Host: a\r\n", b""),
        GET.replace(b"Host: a", b"Host:"),
        GET.replace(b"Host: a", b"Host: a\r\nHost: b"),
        GET.replace(b"Host: a", b"Host: a\r\nhost: a"),
        GET.replace(b"Host:", b"Host :"),
        GET.replace(b"Host:", b" Host:"),
        GET.replace(b"Host:", b"Ho st:"),
        GET.replace(b"Host:", b"Ho\x00st:"),
        GET.replace(b"Host: a", b"Host: a\x00b"),
        GET.replace(b"Host: a", b"Host: a\nX: b"),
        GET.replace(b"Host: a", b"Host: a\rX: b"),
        GET.replace(b"Host: a", b"Host: a\r\n folded"),
        GET.replace(b"Host: a", b"Host: a\r\n\tfolded"),
        GET.replace(b"Host: a", b"Host: a\r\nno colon"),
        GET.replace(b"Host: a", b"Host: a\r\n: empty"),
        GET.replace(b"Host: a", b"Host: a\r\nContent-Length: 4") + b"body",
        GET.replace(b"Host: a", b"Host: a\r\nTransfer-Encoding: chunked") + b"0\r\n\r\n",
        with_line(b"Content-Length: -4"),
        with_line(b"Content-Length: +4"),
        with_line(b"Content-Length: 4 4"),
        with_line(b"Content-Length: 4, 4"),
        with_line(b"Content-Length: 0x4"),
        with_line(b"Content-Length: 4.0"),
        with_line(b"Content-Length: four"),
        with_line(b"Content-Length:"),
        with_line(b"Content-Length: 4\r\nContent-Length: 4"),
        with_line(b"Content-Length: 4\r\nContent-Length: 5"),
        with_line("Content-Length: \u0664".encode()),
        with_line(b"Content-Length: 99999999999999999999"),
        with_line(b"Content-Length: 4\r\nTransfer-Encoding: chunked"),
        with_line(b"Transfer-Encoding: chunked\r\nContent-Length: 4"),
        with_line(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        with_line(b"Transfer-Encoding: gzip, chunked"),
        with_line(b"Transfer-Encoding: chunked, identity"),
        with_line(b"Transfer-Encoding: identity"),
        with_line(b"Transfer-Encoding: xchunked"),
        with_line(b"Transfer-Encoding: \x0bchunked"),
        with_line(b"Transfer-Encoding : chunked"),
        with_line(b"Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0"),
        CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0"),
        CHUNKED.replace(b": chunked", b": gzip, chunked"),
        with_line(b"Expect: 200-ok"),
        with_line(b"Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0"),
        CHUNKED.replace(b"3\r\n", b"0x3\r\n"),
        CHUNKED.replace(b"3\r\n", b"+3\r\n"),
        CHUNKED.replace(b"3\r\n", b"-3\r\n"),
        CHUNKED.replace(b"3\r\n", b" 3\r\n"),
        CHUNKED.replace(b"3\r\n", b"3 \r\n"),
        CHUNKED.replace(b"3\r\n", b"3\n"),
        CHUNKED.replace(b"3\r\n", b"\r\n"),
        CHUNKED.replace(b"3\r\n", b"g\r\n"),
        CHUNKED.replace(b"3\r\n", b"4\r\n"),
        CHUNKED.replace(b"3\r\n", b"2\r\n"),
        CHUNKED.replace(b"abc\r\n", b"abcXX"),
        CHUNKED.replace(b"0\r\n\r\n", b"0\r\nTrailer: x\r\n\r\n"),
    ],
)
def test_doubtful_requests_are_refused(data):
    found = read(data)
    assert found, "the parser still waits"
    assert found[0] in {400, 413, 417}


def test_a_connection_does_not_change_its_protocol():
    line = b"Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket"
    first, *rest = read(GET.replace(b"Host: a", line) + GET)
    assert (first.method, rest) == (b"GET", [400])


@pytest.mark.parametrize(
    ("data", "plain"),
    [
        (b"\r\n" + GET, GET),
        (b"\n" + GET, GET),
        (GET.replace(b"GET ", b"GET  "), GET),
        (CHUNKED.replace(b"3\r\n", b"3;ext=1\r\n"), CHUNKED),
        (CHUNKED.replace(b"3\r\n", b"00000000000000003\r\n"), CHUNKED),
    ],
)
def test_liberties_that_change_nothing_are_taken(data, plain):
    assert read(data) == read(plain)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"a" * 5000, 414),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 3000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n", 413),
        (CHUNKED.replace(b"3\r\nabc", b"1388\r\n" + b"y" * 5000), 413),
        (CHUNKED.replace(b"3\r\nabc", b"fffffffff\r\n" + b"y" * 5000), 413),
    ],
)
def test_limits_have_their_status(data, status):
    assert read(data) == [status]


def test_a_long_path_has_its_own_status():
    assert read(b"GET /" + b"a" * 5000, limits=Limits()) == [414]


def test_many_tiny_chunks_are_refused():
    head = CHUNKED.partition(b"\r\n\r\n")[0]
    wide = Limits(body_bytes=1 << 20)
    assert read(head + b"\r\n\r\n" + b"1\r\nx\r\n" * 5000, limits=wide) == [400]


def test_bytes_in_memory_are_counted_until_they_are_taken():
    reader = RequestReader(LIMITS)
    reader.feed(POST + POST[:-1])
    assert (reader.n_buffered, len(reader.ready), reader.stage) == (7, 1, "body")
    reader.feed(POST[-1:] + GET[:9])
    assert reader.n_buffered == 7 + 1 + 9
    assert [reader.next().body for _ in range(2)] == [b"body"] * 2
    assert reader.next() is None
    assert (reader.n_buffered, reader.stage, reader.pending) == (0, "header", True)


def test_a_flood_of_requests_is_not_parsed_at_once():
    reader = RequestReader(LIMITS)
    reader.feed(GET * 1000)
    assert len(reader.ready) < 50
    assert reader.n_buffered > 900 * len(GET)
    count = 0
    while reader.next():
        count += 1
    assert (count, reader.n_buffered, reader.pending) == (1000, 0, False)


def test_requests_before_a_fault_are_answered_first():
    reader = RequestReader(LIMITS)
    reader.feed(GET + POST + b"nonsense\r\n\r\n" + GET)
    reader.feed(GET)
    assert [reader.next().method for _ in range(2)] == [b"GET", b"POST"]
    with pytest.raises(BadRequest):
        reader.next()


def test_a_pipeline_does_not_count_towards_the_header_after_it():
    assert len(read(GET * 200 + GET[:-4], step=3000)) == 200


def h11_reading(data):
    """What h11 makes of the first request: method, target, fields and body; None if refused."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    connection.receive_data(b"")
    head, body = None, b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                fields = {name.lower(): value for name, value in head.headers}
                return bytes(head.method), bytes(head.target), fields, body
            else:
                return None
    except h11.RemoteProtocolError:
        return None


def mutants(count):
    rng = random.Random(11)
    parts = [b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b";", b",", b"\x00", b"0", b"1", b"a", b"A"]
    parts += [b"Transfer-Encoding: chunked", b"Content-Length: 4", b"chunked", b"HTTP/1.0", b"\xff"]
    for _ in range(count):
        data = bytearray(rng.choice([GET, POST, CHUNKED]))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data) + 1)
            kind = rng.randrange(4)
            if kind == 0:
                data[at:at] = rng.choice(parts)
            elif kind == 1:
                del data[at : at + rng.randint(1, 4)]
            elif kind == 2 and at < len(data):
                data[at] = rng.randrange(256)
            else:
                other = rng.randrange(len(data) + 1)
                data[at:at] = data[other : other + rng.randint(1, 30)]
        yield bytes(data)


@pytest.mark.reliability
def test_what_we_accept_h11_refuses_or_reads_alike():
    accepted = 0
    for data in mutants(20_000):
        found = read(data)
        if found and not isinstance(found[0], int):
            accepted += 1
            request = found[0]
            theirs = h11_reading(data)
            ours = (request.method, request.target, request.fields, request.body)
            assert theirs in (None, ours), data
    assert accepted > 500


def test_limits_are_kept_to_the_byte_and_to_the_field():
    head = b"POST / HTTP/1.1\r\nHost: a\r\n"
    for fields, status in ((14, None), (15, 431)):
        lines = b"".join(b"X%d: y\r\n" % k for k in range(fields))
        found = read((head + lines + b"Content-Length: 0\r\n\r\n") * 2)
        assert found[-1] == status or (status is None and len(found) == 2)
    for size, status in ((4096, None), (4097, 413)):
        chunks = b"%x\r\n" % size + b"y" * size + b"\r\n0\r\n\r\n"
        for data in (
            head + b"Content-Length: %d\r\n\r\n" % size + b"y" * size,
            head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
        ):
            found = read(data * 2)
            assert found[-1] == status or (status is None and len(found) == 2)
    for count, status in ((4095, None), (4096, 400)):  # and the last one, which is empty
        data = head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * count + b"0\r\n\r\n"
        found = read(data)
        assert found[-1] == status or (status is None and len(found[0].body) == count)


@pytest.mark.parametrize("before", [b"", POST])
def test_a_header_is_limited_to_the_byte(before):
    for more, status in ((0, None), (1, 431)):
        # The fields alone count, with four bytes for what stands around each.
        rest = LIMITS.header_bytes - len(b"Host" + b"a") - 4 - len(b"X") - 4 + more
        data = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * rest + b"\r\n\r\n"
        for size in (1, 7, 1000, len(before + data)):  # whatever the pieces it comes in
            found = read(before + data, size)
            assert len(found) == 1 + bool(before)
            assert found[-1] == status or (status is None and len(found[-1].fields[b"x"]) == rest)


@pytest.mark.parametrize("before", [b"", GET, POST])
def test_an_unfinished_header_is_refused_from_the_first_byte_too_many(before):
    most = LIMITS.header_bytes + len(b"GET / HTTP/1.1\r\n" + b"\r\n")
    for size, refused in ((most, False), (most + 1, True)):
        reader = RequestReader(LIMITS)
        reader.feed(before)
        assert bool(reader.next()) == bool(before)
        start = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
        for at in range(size):
            reader.feed(start[at : at + 1] or b"y")
        if not refused:
            assert reader.next() is None
            continue
        with pytest.raises(BadRequest) as told:
            reader.next()
        assert told.value.status == 431
        assert str(told.value) == told.value.reason == "the header is larger than 2048 bytes"


def test_a_path_is_limited_to_the_byte():
    for size, status in ((4096, None), (4097, 414)):
        data = b"GET /" + b"a" * (size - 1) + b" HTTP/1.1\r\nHost: a\r\n\r\n"
        (found,) = read(data, limits=Limits())
        assert found == status or (status is None and len(found.target) == size)


def test_a_pipeline_of_small_headers_is_read_under_a_small_limit():
    small = Limits(header_bytes=100)
    assert len(read(GET * 200, limits=small)) == 200
    reader = RequestReader(small)
    for _ in range(20):  # in two pieces each
        reader.feed(GET[:20])
        assert reader.next() is None
        reader.feed(GET[20:])
        assert reader.next().method == b"GET"


def test_the_last_byte_of_a_body_is_read_by_itself():
    reader = RequestReader(LIMITS)
    reader.feed(POST[:-1])
    reader.feed(POST[-1:] + GET * 3)
    assert (len(reader.ready), reader.n_buffered) == (1, 4 + 3 * len(GET))


def test_a_continue_is_wanted_from_the_first_byte_of_a_body():
    line = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    for size in (0, 1, 2):
        reader = RequestReader(LIMITS)
        reader.feed(line % size)
        assert reader.wants_continue == (size > 0)


def test_a_body_of_known_length_is_one_slice(monkeypatch):
    slices = []
    parse = RequestReader._parse_slice
    monkeypatch.setattr(
        RequestReader,
        "_parse_slice",
        lambda self, data: (slices.append(len(data)), parse(self, data)),
    )
    reader = RequestReader(Limits())
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n"
    reader.feed(head)
    reader.feed(b"x" * 20_000)
    reader.feed(b"x" * 30_000 + GET)
    assert slices == [len(head), 20_000, 30_000]
    assert len(reader.next().body) == 50_000
    while reader.next():
        pass
    reader.feed(GET * 1000)
    while reader.next():
        assert len(reader.ready) < 50
