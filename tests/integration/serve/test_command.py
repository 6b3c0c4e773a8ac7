"""The command ``rankine serve`` itself."""

import json
import signal
import socket
import subprocess
import sys

import pytest

from integration.serve.serve_tools import RUN, make_model

pytestmark = pytest.mark.cli


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-c", RUN, "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_limits_are_shown_and_checked(tmp_path):
    shown = command(str(tmp_path), "--show-limits", "--limit", "queue=7")
    assert shown.returncode == 0
    limits = json.loads(shown.stdout)
    assert (limits["queue"], limits["header_seconds"], limits["body_bytes"]) == (7, 5.0, 1 << 20)
    for bad in ("queue=0", "queue=many", "nothing=1", "queue"):
        found = command(str(tmp_path), "--limit", bad)
        assert found.returncode == 2
        assert found.stderr.startswith("rankine: error: --limit")


def test_a_taken_port_and_a_missing_folder_are_one_line(tmp_path):
    make_model(0).save(tmp_path / "m.rankine")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = command(str(tmp_path), "--port", str(taken.getsockname()[1]))
    assert found.returncode == 2
    assert "in use" in found.stderr
    absent = command(str(tmp_path / "absent"), "--port", "0")
    assert absent.returncode == 2
    assert absent.stderr.splitlines()[-1].startswith("rankine: error: ")
    assert "no model to serve" in absent.stderr


def test_a_missing_extra_says_what_to_install(tmp_path):
    script = "import sys; sys.modules['uvicorn'] = None; " + RUN
    found = subprocess.run(
        [sys.executable, "-c", script, "serve", str(tmp_path)], capture_output=True, text=True
    )
    assert found.returncode == 2
    assert "rankine[serve]" in found.stderr


def test_it_says_where_it_listens_and_stops_on_ctrl_c(tmp_path):
    make_model(0).save(tmp_path / "m.rankine")
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "serve", str(tmp_path), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("limits:"):
            break
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    process.stderr.close()
    assert any(line.startswith("serving m on http://127.0.0.1:") for line in lines)
    assert "body 1,048,576 bytes" in lines[-1]
