"""Real servers in processes and threads, and a client that is nothing but a socket."""

import gc
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from rankine import LinearModel
from rankine.core.specs import ListRange, LogColumns, OneHot
from rankine.serve import server as serving

RUN = "from rankine.cli.main import run; run()"
NAMES = [f"feature_{i}" for i in range(20)]


def make_model(seed=0, **more):
    rng = np.random.default_rng(seed)
    return LinearModel.from_weights(rng.normal(size=len(NAMES)), NAMES, **more)


def log_model():
    """A model of raw columns: two numbers, a one-hot column, a hashed one and a cross."""
    shops = OneHot(column="shop", values=("north", "south"))
    spec = LogColumns(
        numeric=("price", "ctr"),
        one_hot=(shops,),
        hashed=("brand",),
        crosses=(("shop", "brand"),),
        hash_bits=8,
        ignored=("session",),
    )
    weights = np.random.default_rng(5).normal(size=spec.n_features)
    weights[1] = 0.0
    return LinearModel.from_weights(weights, transforms=[spec, ListRange()])


class Client:
    """Speaks to the server at ``port`` of this machine."""

    port: int

    def connect(self, timeout=10.0):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def raw(self, data, timeout=10.0):
        """Send bytes; everything that comes back until the server closes."""
        with self.connect(timeout) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            return read_all(connection)

    def request(self, method, path, body=None, headers=()):
        """One request on a connection of its own: status, headers, body."""
        with self.connect() as connection:
            connection.sendall(encode_request(method, path, body, headers))
            return read_reply(connection, method)

    def json(self, method, path, body=None, headers=()):
        status, _, found = self.request(method, path, body, headers)
        return status, json.loads(found)

    def metric(self, name):
        _, _, text = self.request("GET", "/metrics")
        for line in text.decode().splitlines():
            if line.startswith(f"rankine_{name} "):
                return float(line.rsplit(" ", 1)[1])
        return 0.0


class Server(Client):
    """``rankine serve`` with its address."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, "serve", "--port", "0", "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.stderr.read().decode())
        self.facts = json.loads(line)
        self.port = int(self.facts["url"].rsplit(":", 1)[1])

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            _, errors = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return errors.decode()


class LocalServer(Client):
    """``serve`` in a thread of this process; ``serving`` is its uvicorn server."""

    def __init__(self, path, **settings):
        self.folder = path
        before = sys.getswitchinterval(), gc.get_threshold()
        told, client, patch = queue.Queue(), self, pytest.MonkeyPatch()

        class Kept(serving.Server):
            def run(self, sockets=None):
                patch.undo()
                client.serving = self
                super().run(sockets)

        def run():
            try:
                serving.serve(serving.Settings(path, port=0, **settings), told.put)
            finally:
                patch.undo()
                told.put(None)
                sys.setswitchinterval(before[0])
                gc.set_threshold(*before[1])
                gc.unfreeze()

        patch.setattr(serving, "Server", Kept)
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        self.facts = told.get(timeout=60)
        self.port = int(self.facts["url"].rsplit(":", 1)[1])

    def stop(self):
        self.serving.handle_exit(signal.SIGTERM, None)
        self.thread.join(20)
        return not self.thread.is_alive()


def encode_request(method, path, body=None, headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    given = {name.lower() for name, _ in headers}
    if body is not None:
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        lines.append(f"Content-Length: {len(body)}")
        if "content-type" not in given:
            lines.append("Content-Type: application/json")
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def read_all(connection):
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionError:
        pass
    return found


def read_reply(connection, method="POST"):
    """Status, headers and body of one reply; raises EOFError where the server just closed."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = connection.recv(65536)
        if not part:
            raise EOFError(found)
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    status = int(first.split(" ")[1])
    if status == 100:
        return status, {}, body
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    wanted = 0 if method == "HEAD" else int(headers.get("content-length", 0))
    while len(body) < wanted:
        part = connection.recv(65536)
        if not part:
            raise EOFError(found)
        body += part
    return status, headers, body


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("waited in vain")
