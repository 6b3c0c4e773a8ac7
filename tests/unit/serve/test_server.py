"""What the server does before it serves."""

import asyncio
import logging
import os
import signal
import socket
from types import SimpleNamespace

import pytest
import uvicorn

from error_checks import raises_for
from integration.serve.serve_tools import LocalServer, encode_request, make_model, read_reply
from rankine.core.errors import ModelError
from rankine.serve.history import StateSettings
from rankine.serve.limits import Limits
from rankine.serve.server import (
    Server,
    Settings,
    _raise_descriptor_limit,
    _url,
    bind,
    load_models,
    serve,
)

resource = pytest.importorskip("resource")


@pytest.mark.parametrize(
    ("soft", "hard", "after"),
    [
        (100, 5000, 1000),
        (100, resource.RLIM_INFINITY, 1000),
        (100, 300, 300),
        (1000, 1000, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
    ],
)
def test_the_limit_of_descriptors_is_raised_as_far_as_allowed(
    monkeypatch, caplog, soft, hard, after
):
    calls = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: calls.append(pair))
    with caplog.at_level(logging.WARNING, "rankine.serve"):
        _raise_descriptor_limit(1000)
    assert calls == ([] if after is None else [(after, hard)])
    assert bool(caplog.records) == (after == 300)


def test_a_server_reports_its_status_and_stops_on_request(tmp_path, request):
    for name in ("zoo", "shop"):
        make_model(0).save(tmp_path / f"{name}.rankine")
    server = LocalServer(tmp_path, allowed_hosts=("Shop.Internal",), limits=Limits(queue=7))
    request.addfinalizer(server.stop)
    facts = server.facts
    assert (facts["pid"], facts["models"]) == (os.getpid(), ["shop", "zoo"])
    assert facts["limits"]["queue"] == 7
    assert facts["url"] == f"http://127.0.0.1:{server.port}"
    assert server.request("GET", "/readyz")[2] == b"ready\n"
    asked = encode_request("GET", "/readyz").replace(b"localhost", b"SHOP.internal")
    with server.connect() as connection:
        connection.sendall(asked)
        assert read_reply(connection)[0] == 200
    assert not server.serving.pool.stopping
    assert server.serving.pool.large.thread._max_workers == 1, "large requests take turns"
    assert server.stop()
    assert server.serving.pool.stopping
    with pytest.raises(ConnectionError):
        server.connect()


def test_there_are_descriptors_for_more_than_the_connections(tmp_path, monkeypatch):
    wanted = []
    monkeypatch.setattr("rankine.serve.server._raise_descriptor_limit", wanted.append)
    monkeypatch.setattr("rankine.serve.server.bind", lambda *_: None)
    monkeypatch.setattr("sys.setswitchinterval", lambda _: None)
    with pytest.raises(ModelError, match="the folder is empty"):
        serve(Settings(tmp_path, limits=Limits(connections=100)))
    assert wanted == [164]


def test_a_public_address_and_an_empty_folder_are_refused(tmp_path):
    with raises_for("host"):
        serve(Settings(tmp_path, host="0.0.0.0", port=0))  # noqa: S104
    with pytest.raises(ModelError, match="the folder is empty") as caught:
        load_models(Settings(tmp_path))
    assert caught.value.file == str(tmp_path)
    for name in ("b", "a"):
        (tmp_path / f"{name}.rankine").write_bytes(b"nonsense")
    with pytest.raises(ModelError, match=r"to serve: a: .*; b: "):
        load_models(Settings(tmp_path))


def test_errors_are_logged_only_if_something_is_served(tmp_path, caplog):
    for name in ("b", "a"):
        (tmp_path / f"{name}.rankine").write_bytes(b"nonsense")
    with pytest.raises(ModelError):
        load_models(Settings(tmp_path))
    assert caplog.records == []
    make_model(0).save(tmp_path / "c.rankine")
    load_models(Settings(tmp_path))
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR", "ERROR"]


def test_a_state_that_no_model_uses_is_noticed(tmp_path, caplog):
    make_model(0).save(tmp_path / "shop.rankine")
    load_models(Settings(tmp_path, state=StateSettings(tmp_path / "state")))
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert str(tmp_path / "state") in warning.getMessage()
    assert "history features" in warning.getMessage()


def test_addresses_of_both_families():
    for host, family, start in (
        ("127.0.0.1", socket.AF_INET, "http://127.0.0.1:"),
        ("::1", socket.AF_INET6, "http://[::1]:"),
    ):
        try:
            listener = bind(host, 0)
        except OSError:
            assert family == socket.AF_INET6, "this machine has no IPv6"
            continue
        with listener:
            assert listener.family == family
            assert _url(listener) == f"{start}{listener.getsockname()[1]}"


def test_signals_look_for_models_and_end_the_server(monkeypatch):
    did = []

    async def started(_server, sockets=None):
        did.append(("started", sockets))

    monkeypatch.setattr(uvicorn.Server, "startup", started)
    pool = SimpleNamespace(sweep=lambda loop: did.append("sweep"), stopping=False)
    reloader = SimpleNamespace(history=None, wake=lambda: did.append("wake"))
    config = uvicorn.Config("none", log_config=None)
    server = Server(config, pool, reloader, lambda: did.append("told"))

    async def run():
        await server.startup(["socket"])
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.05)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)

    asyncio.run(run())
    assert did == ["sweep", ("started", ["socket"]), "told", "wake"]
    server.handle_exit(signal.SIGTERM, None)
    assert (pool.stopping, server.should_exit, server.force_exit) == (True, True, False)
    assert server._captured_signals == []
