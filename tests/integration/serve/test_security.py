"""Who is let in: tokens, Host headers, addresses, names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration.serve.serve_tools import RUN, make_model
from rankine.serve.reload import model_name

TOKEN = "c2VjcmV0LXRva2VuLWZvci10ZXN0cw=="  # noqa: S105 - opens nothing


def write_token(path, text=TOKEN, mode=0o600):
    path.write_text(text + "\n")
    path.chmod(mode)
    return path


def test_the_command_refuses_a_public_address(tmp_path):
    make_model().save(tmp_path / "m.rankine")
    command = [sys.executable, "-c", RUN, "serve", str(tmp_path), "--host", "0.0.0.0"]  # noqa: S104
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 2
    assert "--token-file" in found.stderr
    assert found.stderr.count("\n") == 1


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
