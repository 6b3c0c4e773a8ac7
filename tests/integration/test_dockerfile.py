"""The Dockerfile of the containers guide, checked as far as it can be without Docker."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from tools.docs.cli_reference import commands

import rankine

pytestmark = pytest.mark.docs
ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
STEPS = [
    line.split(None, 1)
    for line in TEXT.replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]


def step(word):
    return [rest for name, rest in STEPS if name == word]


def test_instructions_are_docker_s_and_files_exist():
    known = {
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "EXPOSE",
        "VOLUME",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }
    assert {name for name, _ in STEPS} == known
    for sources in step("COPY"):
        for source in sources.split()[:-1]:
            assert source.startswith(("--from=", "/")) or (ROOT / source).exists(), source
    assert step("USER") == ["rankine"]


def test_extras_and_variables_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert set(re.findall(r"\[(\w+)\]'", TEXT)) <= set(extras)
    sources = "".join(
        path.read_text(encoding="utf-8") for path in Path(rankine.__file__).parent.rglob("*.py")
    )
    for variable in step("ENV"):
        assert f'"{variable.split("=")[0]}"' in sources


def test_the_server_is_started_with_options_it_has():
    words = json.loads(step("ENTRYPOINT")[0]) + json.loads(step("CMD")[0])
    assert words[:2] == ["rankine", "serve"]
    known = {option for p in commands()["serve"].params for option in p.opts}
    assert {word for word in words if word.startswith("--")} <= known
    assert any(line.startswith("rankine warmup") for line in step("RUN"))
    port = words[words.index("--port") + 1]
    assert step("EXPOSE") == [port]
    assert f":{port}/readyz" in step("HEALTHCHECK")[0]
