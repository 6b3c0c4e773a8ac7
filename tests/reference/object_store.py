"""A server of the S3 protocol on loopback (moto's), with latency and faults."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager

import pytest

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Faults:
    """Delays every request, and drops connections in the middle of bodies.

    Attributes
    ----------
    latency
        Seconds before each answer.
    drops
        Number of connections still to drop: of requests for objects, every second one.
    status
        Answer with this status and code instead, if set.
    requests
        Methods and paths so far.
    """

    def __init__(self, app):
        self.app = app
        self._lock = threading.Lock()
        self.reset()

    def reset(self):
        self.latency = 0.0
        self.drops = 0
        self.status = None
        self.code = ""
        self.refuses = lambda _method, _path: True
        self.requests = []
        self._n_objects = 0

    def __call__(self, environ, start_response):
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.requests.append((method, path))
        time.sleep(self.latency)
        if self.status is not None and self.refuses(method, path):
            body = f"<?xml version='1.0'?><Error><Code>{self.code}</Code></Error>".encode()
            start_response(
                self.status, [("Content-Type", "text/xml"), ("Content-Length", str(len(body)))]
            )
            return [b"" if method == "HEAD" else body]
        answer = self.app(environ, start_response)
        if method != "GET" or "HTTP_RANGE" not in environ or not self._drops_this():
            return answer
        return cut(b"".join(answer))

    def _drops_this(self):
        with self._lock:
            self._n_objects += 1
            if self._n_objects % 2 and self.drops:
                self.drops -= 1
                return True
        return False


def cut(body):
    yield body[: len(body) // 2]
    raise ConnectionAbortedError


@contextmanager
def s3_server():
    """Run the server; yield its address and its faults. Skip without moto."""
    backend = pytest.importorskip("moto.moto_server.werkzeug_app", reason="needs moto, flask")
    pytest.importorskip("flask_cors", reason="needs flask-cors")
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = Faults(backend.DomainDispatcherApplication(backend.create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", app
    finally:
        server.shutdown()
        thread.join()
