"""What docs/how-to/serve.md says is so."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from rankine import LinearModel
from rankine.serve.limits import Limits

pytestmark = pytest.mark.docs

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")


def test_the_first_example_is_answered(start, tmp_path):
    LinearModel.from_weights([1.0, -0.5], ["bm25", "age"]).save(tmp_path / "shop.rankine")
    server = start(str(tmp_path))
    request = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])
    status, reply = server.json("POST", "/v1/rank", request)
    assert status == 200
    assert [(item["id"], item["score"]) for item in reply["ranking"]] == [("b", 3.0), ("a", 0.5)]
    assert reply["ranking"][0]["lead"]["total"] == 2.5
    text = json.dumps(reply["ranking"][0]["explanation"])
    assert text[1:-1] in PAGE


def test_every_limit_is_in_the_table():
    for name in msgspec.to_builtins(Limits()):
        assert f"`{name}`" in PAGE, name


def test_every_route_and_option_is_named():
    for word in ("/v1/rank", "/v1/score", "/v1/models", "/healthz", "/readyz", "/metrics"):
        assert word in PAGE
    options = (
        "--token-file",
        "--allow-unauthenticated",
        "--allow-host",
        "--reload-every",
        "--strict",
    )
    for option in [*options, "--strict"]:
        assert option in PAGE
