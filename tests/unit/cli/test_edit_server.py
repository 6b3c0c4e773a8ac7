"""The local server of ``rankine edit``: token, Host, Origin, sizes and errors."""

import http.client
import json
from contextlib import contextmanager
from threading import Thread

import pytest

from rankine.cli._edit_server import MAX_BODY, EditServer
from rankine.core.errors import ParameterError


class Session:
    """A session that records what it is asked."""

    def __init__(self):
        self.asked = []

    def state(self):
        return {"curves": []}

    def solve(self, cells):
        self.asked.append(cells)
        raise ParameterError("no such column", fix="Reload")

    def save(self, cells, out, by, note):
        self.asked.append((out, by, note))
        return {"out": out, "digest": "0"}


CELLS = [{"column": 0, "cell": 0, "value": 0.5}]


@contextmanager
def running():
    with EditServer(Session(), 0) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server():
    with running() as server:
        yield server


def ask(server, path, body=None, *, token=True, **headers):
    port = server.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    if token:
        headers = {"Authorization": f"Bearer {server.token}", **headers}
    if body is not None:
        headers = {"Content-Type": "application/json", **headers}
        body = body if isinstance(body, (bytes, str)) else json.dumps(body)
    connection.request("POST" if body is not None else "GET", path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.headers), content


def test_the_page_needs_no_token_and_its_data_does(server):
    status, headers, page = ask(server, "/", token=False)
    assert status == 200
    assert server.token.encode() not in page
    assert headers["X-Frame-Options"] == "DENY"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert ask(server, "/state", token=False)[0] == 401
    assert ask(server, "/state", Authorization="Bearer wrong", token=False)[0] == 401
    assert ask(server, "/state")[0] == 200
    assert server.url.startswith("http://127.0.0.1:")
    assert server.url.endswith(f"/#{server.token}")
    assert len(server.token) >= 22


def test_foreign_pages_are_refused(server):
    port = server.server_address[1]
    assert ask(server, "/state", Host="evil.example")[0] == 421
    assert ask(server, "/", token=False, Host=f"evil.example:{port}")[0] == 421
    assert ask(server, "/save", {"cells": CELLS}, Origin="http://evil.example")[0] == 403
    assert ask(server, "/save", {"cells": CELLS}, Origin="null")[0] == 403
    origin = f"http://127.0.0.1:{port}"
    assert ask(server, "/save", {"cells": CELLS, "out": "a"}, Origin=origin)[0] == 200
    assert ask(server, "/state", Host=f"localhost:{port}")[0] == 200
    assert server.session.asked == [("a", "", "")]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ("{}", {"Content-Type": "text/plain"}, 400),
        ("not json", {}, 400),
        ("[]", {}, 400),
        ('{"cells": [], "cells": []}', {}, 400),
        ("[" * 5000, {}, 400),
        (b"\xff", {}, 400),
        ({"cells": 3}, {}, 422),
        ({"cells": CELLS, "out": 3}, {}, 422),
        ({"cells": CELLS, "out": "a", "note": "x" * 1001}, {}, 422),
        ("x", {"Content-Length": str(MAX_BODY + 1)}, 413),
    ],
)
def test_bodies_that_are_refused(server, body, headers, status):
    assert ask(server, "/save", body, **headers)[0] == status
    assert server.session.asked == []


def test_errors_of_the_session_are_answers(server):
    status, _, content = ask(server, "/solve", {"cells": CELLS})
    assert status == 422
    assert json.loads(content)["error"] == "no such column. Reload"
    assert ask(server, "/nowhere")[0] == 404
    assert ask(server, "/nowhere", {})[0] == 404


def test_each_server_has_its_own_token():
    with running() as one, running() as two:
        assert one.token != two.token
        assert one.server_address[0] == "127.0.0.1"
