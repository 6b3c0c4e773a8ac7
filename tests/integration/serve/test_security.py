"""Who is let in: tokens, Host headers, addresses, names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration.serve.serve_tools import RUN, make_model
from rankine.core.errors import ParameterError
from rankine.serve.reload import model_name
from rankine.serve.security import AccessPolicy, check_bind, is_secret, read_token

TOKEN = "c2VjcmV0LXRva2VuLWZvci10ZXN0cw=="  # noqa: S105 - opens nothing


def write_token(path, text=TOKEN, mode=0o600):
    path.write_text(text + "\n")
    path.chmod(mode)
    return path


def test_token_files_must_be_private_and_long(tmp_path):
    assert read_token(write_token(tmp_path / "good")) == TOKEN.encode()
    for mode in (0o644, 0o640, 0o604, 0o620):
        with pytest.raises(ParameterError, match="other users"):
            read_token(write_token(tmp_path / f"m{mode}", mode=mode))
    for text in ("short", "a" * 40, "two words of a token file", "", "x" * 2000):
        with pytest.raises(ParameterError, match="22 to 512"):
            read_token(write_token(tmp_path / "bad", text))


@pytest.mark.parametrize(
    ("owner", "mode", "user", "secret"),
    [
        (0, 0o444, 999, True),  # a secret that Docker mounts
        (0, 0o440, 999, True),  # a secret that Kubernetes mounts, with fsGroup
        (0, 0o664, 999, False),
        (0, 0o646, 999, False),
        (0, 0o400, 0, True),
        (0, 0o444, 0, False),
        (999, 0o600, 999, True),
        (999, 0o644, 999, False),
        (1000, 0o644, 999, False),
    ],
)
def test_a_secret_of_root_may_be_readable(owner, mode, user, secret):
    status = os.stat_result((0o100000 | mode, 0, 0, 1, owner, 0, 40, 0, 0, 0))
    assert is_secret(status, user) is secret


def test_a_token_is_one_word_of_many_letters(tmp_path):
    letters = "abcdefgh"
    for text, good in (
        (letters * 3, True),
        (letters[:7] * 4, False),
        ((letters * 3)[:22], True),
        ((letters * 3)[:21], False),
        (letters * 64, True),
        (letters * 64 + "a", False),
        (letters * 2 + "._~+/=-", True),
        (letters * 3 + "!", False),
    ):
        file = write_token(tmp_path / "token", f" {text} ")
        if good:
            assert read_token(file) == text.encode()
        else:
            with pytest.raises(ParameterError, match="22 to 512"):
                read_token(file)
    with pytest.raises(ParameterError, match="not a regular file"):
        read_token(os.devnull)


def test_a_path_is_open_to_all_or_to_the_token():
    access = AccessPolicy("127.0.0.1", TOKEN.encode())
    for path in ("/", "/healthz", "/readyz"):
        assert access.refusal_status(path, None) is None
    for header, good in (
        (None, False), (b"", False), (b"Bearer", False), (f"Bearer {TOKEN}".encode(), True),
        (f"BEARER {TOKEN} ".encode(), True), (f"Basic {TOKEN}".encode(), False),
        (f"Bearer {TOKEN}x".encode(), False), (TOKEN.encode(), False),
    ):  # fmt: skip
        assert access.refusal_status("/v1/models", header) == (None if good else 401)
        assert AccessPolicy("127.0.0.1").refusal_status("/v1/models", header) is None


def test_public_addresses_need_a_token():
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        check_bind(host, None, allow_unauthenticated=False)
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):  # noqa: S104
        with pytest.raises(ParameterError, match="no token"):
            check_bind(host, None, allow_unauthenticated=False)
        check_bind(host, TOKEN.encode(), allow_unauthenticated=False)
        check_bind(host, None, allow_unauthenticated=True)


def test_the_command_refuses_a_public_address(tmp_path):
    make_model().save(tmp_path / "m.rankine")
    command = [sys.executable, "-c", RUN, "serve", str(tmp_path), "--host", "0.0.0.0"]  # noqa: S104
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 2
    assert "--token-file" in found.stderr
    assert found.stderr.count("\n") == 1


def test_host_headers():
    local = AccessPolicy("127.0.0.1")
    for host in ("localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80", "LOCALHOST"):
        assert local.host_allowed(host)
    for host in ("", "evil.example", "127.0.0.1.evil.example", "localhost.evil", "10.0.0.1", "a b"):
        assert not local.host_allowed(host)
    assert AccessPolicy("127.0.0.1", None, ("shop.internal",)).host_allowed("Shop.Internal:80")
    public = AccessPolicy("0.0.0.0")  # noqa: S104
    assert public.host_allowed("10.0.0.1:8080")
    assert not public.host_allowed("evil.example")
    assert AccessPolicy("0.0.0.0", TOKEN.encode()).host_allowed("any.example")  # noqa: S104
    assert not AccessPolicy("0.0.0.0", TOKEN.encode(), ("shop",)).host_allowed("any.example")  # noqa: S104
    assert not AccessPolicy("127.0.0.1", TOKEN.encode()).host_allowed("10.0.0.1")
    assert not AccessPolicy("localhost").host_allowed("[2001:db8::1]")
    assert AccessPolicy("127.0.0.1", TOKEN.encode(), ("shop",)).host_allowed("localhost")
    for host in ("localhost:", "localhost:123456", "[::1", "a:b"):
        assert not public.host_allowed(host)


def test_a_strange_host_is_misdirected(server):
    data = b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert server.raw(data).startswith(b"HTTP/1.1 421 ")


def test_no_reply_opens_a_door_to_other_pages(server):
    origin = [("Origin", "https://evil.example")]
    preflight = [*origin, ("AccessPolicy-Control-Request-Method", "POST")]
    for method, headers in (("GET", origin), ("OPTIONS", preflight)):
        status, found, _ = server.request(method, "/v1/models", headers=headers)
        assert not [name for name in found if name.startswith("access-control")]
        assert found["x-content-type-options"] == "nosniff"
        assert status == (200 if method == "GET" else 405)


def test_the_token_opens_everything_else(start, tmp_path):
    make_model().save(tmp_path / "m.rankine")
    token = write_token(tmp_path / ".token")
    server = start(str(tmp_path), "--token-file", str(token))
    for path in ("/", "/healthz", "/readyz"):
        assert server.request("GET", path)[0] == 200
    good = [("Authorization", f"Bearer {TOKEN}")]
    bad = [
        "Bearer",
        "Bearer x",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        TOKEN,
        f"Bearer {TOKEN[:-1]}",
    ]
    for method, path in (("GET", "/v1/models"), ("GET", "/metrics"), ("POST", "/v1/rank")):
        body = {"items": []} if method == "POST" else None
        assert server.request(method, path, body, good)[0] == 200
        for value in [None, *bad]:
            headers = [] if value is None else [("Authorization", value)]
            status, found, text = server.request(method, path, body, headers)
            assert (status, found["www-authenticate"]) == (401, "Bearer")
            assert TOKEN.encode() not in text
    assert TOKEN not in server.stop()


@pytest.mark.parametrize(
    "file",
    [
        "..",
        "..rankine",
        "a..b.rankine",
        ".hidden.rankine",
        "-x.rankine",
        "a b.rankine",
        "a/b",
        "ü.x",
    ],
)
def test_files_that_give_no_name(file):
    assert model_name(file) is None


def test_links_in_the_folder_are_not_followed(start, tmp_path):
    outside = tmp_path / "outside.rankine"
    make_model(4).save(outside)
    models = tmp_path / "models"
    models.mkdir()
    make_model(5).save(models / "good.rankine")
    (models / "link.rankine").symlink_to(outside)
    os.mkfifo(models / "pipe.rankine")
    (models / "text.rankine").write_text("not a model")
    server = start(str(models))
    _, reply = server.json("GET", "/v1/models")
    found = {entry["name"]: entry for entry in reply["models"]}
    assert found["good"]["kind"] == "linear"
    assert "symbolic link" in found["link"]["error"]
    assert "regular" in found["pipe"]["error"]
    assert found["text"]["kind"] == "none"
    assert str(Path(tmp_path)) not in json.dumps(reply)
