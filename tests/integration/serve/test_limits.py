"""Deadlines, sizes, the queue and the stop, against a server with short limits."""

import contextlib
import json
import socket
import threading
import time

import pytest

from integration.serve.serve_tools import encode_request, make_model, read_all, read_reply, wait_for

pytestmark = pytest.mark.reliability

HEAD = b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GOOD = encode_request("POST", "/v1/rank", {"items": [{"features": {"feature_1": 1}}]})
DEADLINES = {
    "header_seconds": 1.0,
    "request_seconds": 1.5,
    "idle_seconds": 2.0,
    "send_seconds": 1.0,
}


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    from integration.serve.serve_tools import Server

    folder = tmp_path_factory.mktemp("models")
    make_model(0).save(folder / "shop.rankine")
    limits = {
        **DEADLINES,
        "body_bytes": 200_000,
        "connections": 300,
        "connections_per_address": 280,
    }
    flags = [part for name, value in limits.items() for part in ("--limit", f"{name}={value}")]
    server = Server(str(folder), *flags)
    yield server
    server.stop()


def test_the_reply_to_a_late_request_names_the_deadline(hasty):
    for data, word in ((b"GET / HT", b"header"), (HEAD + b"Content-Length: 9\r\n\r\n{", b"body")):
        with hasty.connect() as connection:
            connection.sendall(data)
            reply = read_all(connection)
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert word in reply
        assert b"connection: close" in reply


def test_refusals_are_counted_by_their_limit(hasty):
    def count(limit):
        return hasty.metric(f'refused_total{{limit="{limit}"}}')

    before = count("protocol")
    for bad in (
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\n\n",
        HEAD + b"\r\nContent-Length: x\r\n\r\n",
    ):
        hasty.raw(bad)
    assert count("protocol") == before + 3
    slow = {"header": b"GET / HT", "body": HEAD + b"Content-Length: 9\r\n\r\n{", "idle": b""}
    for kind, data in slow.items():
        before = count(f"{kind}_deadline")
        with hasty.connect() as connection:
            connection.sendall(data)
            read_all(connection)
        wait_for(lambda before=before, kind=kind: count(f"{kind}_deadline") == before + 1)


def test_a_client_that_does_not_read_is_cut_off_and_counted(hasty):
    name = 'refused_total{limit="send_deadline"}'
    before = hasty.metric(name)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.settimeout(2.0)
        deaf.connect(("127.0.0.1", hasty.port))
        with contextlib.suppress(OSError):
            deaf.sendall(encode_request("GET", "/openapi.json") * 600)
        wait_for(lambda: hasty.metric(name) > before)
    assert hasty.metric(name) == before + 1


def test_sizes(hasty):
    assert hasty.raw(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20_000).startswith(
        b"HTTP/1.1 431 "
    )
    fields = b"".join(b"X%d: y\r\n" % i for i in range(100))
    assert hasty.raw(b"GET / HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n").startswith(
        b"HTTP/1.1 431 "
    )
    big = HEAD + b"Content-Length: 200001\r\n\r\n" + b" " * 200_001
    assert hasty.raw(big).startswith(b"HTTP/1.1 413 ")
    exact = b'{"items":[]}'.ljust(200_000)
    assert hasty.request("POST", "/v1/rank", exact)[0] == 200
    chunk = b"186a0\r\n" + b" " * 100_000 + b"\r\n"
    endless = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 3
    assert hasty.raw(endless).startswith(b"HTTP/1.1 413 ")
    many = {"items": [{"features": {}}] * 201, "explain": True}
    status, reply = hasty.json("POST", "/v1/rank", many)
    assert (status, reply["error"]["code"]) == (422, "limit")


def test_continue_is_sent_after_a_valid_header(hasty):
    with hasty.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: 12\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"items":[]}')
        assert read_reply(connection)[0] == 200
        connection.sendall(HEAD + b"Content-Length: 999999\r\nExpect: 100-continue\r\n\r\n")
        assert read_reply(connection)[0] == 413


def test_pipelined_requests_are_answered_in_order(hasty):
    paths = ["/healthz", "/readyz", "/nothing", "/v1/models", "/healthz"] * 40
    data = b"".join(encode_request("GET", path) for path in paths)
    last = encode_request("GET", "/readyz", headers=[("Connection", "close")])
    found = hasty.raw(data + last)
    statuses = [int(part[:3]) for part in found.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [404 if path == "/nothing" else 200 for path in [*paths, "/readyz"]]


def test_a_long_pipeline_is_read_as_it_is_answered(hasty):
    large = encode_request("POST", "/v1/rank", b'{"items":[]}'.ljust(50_000))
    with hasty.connect() as connection:
        thread = threading.Thread(target=connection.sendall, args=(large * 60,))
        thread.start()
        data = b""
        while data.count(b"HTTP/1.1 200 ") < 60 or not data.endswith(b"}"):
            assert hasty.metric("buffered_bytes") < 400_000
            data += connection.recv(65536)
        thread.join()
        assert hasty.metric("buffered_bytes") == 0


def test_connections_have_a_cap(hasty):
    held = []
    try:
        wait_for(lambda: hasty.metric("connections") < 10)
        held.extend(hasty.connect() for _ in range(290))
        refused = 0
        for connection in reversed(held):
            connection.settimeout(0.3)
            try:
                refused += connection.recv(20).startswith(b"HTTP/1.1 503")
            except TimeoutError:
                break
        assert refused >= 5
    finally:
        for connection in held:
            connection.close()
    wait_for(lambda: hasty.metric("connections") < 10)
    assert hasty.metric('refused_total{limit="connections"}') >= 5


def test_a_full_queue_says_when_to_come_back(start, tmp_path):
    make_model(0).save(tmp_path / "shop.rankine")
    server = start(str(tmp_path), "--limit", "queue=2")
    items = [{"features": {f"feature_{j}": 0.5 for j in range(20)}}] * 150
    heavy = encode_request("POST", "/v1/rank", {"items": items, "explain": 20})
    statuses, waits = [], []

    def ask():
        with server.connect() as connection:
            for _ in range(5):
                connection.sendall(heavy)
                status, headers, _ = read_reply(connection)
                statuses.append(status)
                if status == 503:
                    waits.append(headers["retry-after"])

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    probes = [server.request("GET", "/healthz")[0] for _ in range(20)]
    for thread in threads:
        thread.join()
    assert set(statuses) == {200, 503}
    assert server.metric('refused_total{limit="queue"}') == statuses.count(503)
    assert waits == ["1"] * statuses.count(503)
    assert probes == [200] * 20
    assert server.metric("queue_length") == 0


def test_memory_for_unfinished_bodies_has_a_cap(start, tmp_path):
    make_model(0).save(tmp_path / "shop.rankine")
    server = start(str(tmp_path), "--limit", "buffered_bytes=1000000")
    held = []
    for _ in range(6):
        connection = server.connect()
        connection.sendall(HEAD + b"Content-Length: 400000\r\n\r\n" + b" " * 300_000)
        held.append(connection)
    wait_for(lambda: server.metric('refused_total{limit="memory"}') >= 2)
    assert server.metric("buffered_bytes") <= 1_000_000
    assert server.request("POST", "/v1/rank", {"items": []})[0] == 200
    for connection in held:
        connection.close()
    wait_for(lambda: server.metric("buffered_bytes") == 0)


def test_stopping_answers_what_has_arrived(start, tmp_path):
    make_model(0).save(tmp_path / "shop.rankine")
    for _ in range(2):
        server = start(str(tmp_path))
        lost, answered = [], []

        def ask(server=server, lost=lost, answered=answered):
            with server.connect() as connection:
                while True:
                    try:
                        connection.sendall(GOOD)
                        status, headers, body = read_reply(connection)
                    except (OSError, EOFError) as error:
                        lost.append(error)
                        return
                    answered.append((status, len(json.loads(body)["ranking"])))
                    if headers.get("connection") == "close":
                        return

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        unfinished = server.connect()
        unfinished.sendall(GOOD[:-5])
        wait_for(lambda answered=answered: len(answered) > 50)
        server.process.terminate()
        time.sleep(0.2)
        unfinished.sendall(GOOD[-5:])
        status, headers, _ = read_reply(unfinished)
        assert (status, headers["connection"]) == (200, "close")
        for thread in threads:
            thread.join(10)
        begin = time.monotonic()
        server.stop()
        assert time.monotonic() - begin < 5
        assert server.process.returncode == 0
        assert not lost
        assert set(answered) == {(200, 1)}
