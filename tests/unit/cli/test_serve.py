"""``rankine serve`` without a server: options, levels of the log, what is said at the start."""

from __future__ import annotations

import json
import logging
import sys

import pytest
from typer.testing import CliRunner

from error_checks import raises_for
from rankine.cli.main import app, find_commands
from rankine.core.errors import MissingExtraError, ParameterError, RankineError
from rankine.serve.limits import Limits

pytestmark = pytest.mark.cli
find_commands()
TOKEN = "c2VjcmV0LXRva2VuLWZvci10ZXN0cw=="  # noqa: S105 - opens nothing


@pytest.fixture
def command(monkeypatch):
    """The command; it starts nothing, and tells of so many models."""
    monkeypatch.setattr(logging, "basicConfig", lambda **options: levels.append(options["level"]))
    logger = logging.getLogger("rankine.serve")
    before, levels, kept = logger.level, [], []

    def call(*words, models=1):
        facts = {"models": [f"m{k}" for k in range(models)], "url": "http://x", "limits": {}}

        def serve(settings, started):
            kept.append(settings)
            facts["limits"] = {
                name: getattr(settings.limits, name) for name in Limits().__struct_fields__
            }
            started(facts)

        monkeypatch.setattr("rankine.serve.server.serve", serve)
        logger.setLevel(logging.CRITICAL)
        done = CliRunner().invoke(app, list(words))
        if isinstance(done.exception, RankineError):
            raise done.exception
        assert done.exit_code == 0, done.output
        return kept[-1] if kept else None, (*levels[-1:], logger.level), done

    yield call
    logger.setLevel(before)


def test_options_become_settings(command, tmp_path):
    settings, _, done = command("serve", "models")
    assert (settings.path, settings.host, settings.port) == ("models", "127.0.0.1", 8080)
    assert (settings.token, settings.allowed_hosts) == (None, ())
    assert not settings.allow_unauthenticated
    assert not settings.strict
    assert (settings.reload_seconds, settings.limits) == (1.0, Limits())
    assert done.stderr.startswith("serving m0 on http://x (stop with Ctrl+C)\nlimits: header 5 s")
    assert done.stdout == ""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    settings, _, done = command(
        "serve", "models", "--port", "0", "--host", "0.0.0.0", "--token-file",  # noqa: S104
        str(tmp_path / "token"), "--allow-unauthenticated", "--allow-host", "a", "--allow-host",
        "b", "--reload-every", "2", "--strict", "--limit", "queue=7", "--limit", "items=3",
        "--json",
    )  # fmt: skip
    assert (settings.token, settings.allowed_hosts) == (TOKEN.encode(), ("a", "b"))
    assert settings.allow_unauthenticated
    assert settings.strict
    assert (settings.limits.queue, settings.limits.items, settings.reload_seconds) == (7, 3, 2.0)
    assert json.loads(done.stdout)["models"] == ["m0"]
    assert done.stderr == ""


@pytest.mark.parametrize(("count", "more"), [(5, False), (6, True)])
def test_five_models_are_named(command, count, more):
    told = command("serve", "models", models=count)[2].stderr
    assert told.startswith("serving m0, m1, m2, m3, m4 " + ("... on" if more else "on"))


@pytest.mark.parametrize(
    ("flag", "levels"),
    [
        ("-q", (logging.ERROR, logging.CRITICAL)),
        (None, (logging.WARNING, logging.INFO)),
        ("-v", (logging.DEBUG, logging.INFO)),
    ],
)
def test_how_much_is_logged(command, flag, levels):
    assert command(*([] if flag is None else [flag]), "serve", "models")[1] == levels


def test_limits_are_shown_and_checked(command):
    settings, _, done = command("serve", "models", "--show-limits", "--limit", "queue=7")
    assert settings is None
    assert json.loads(done.stdout)["queue"] == 7
    for bad in ("queue=0", "queue=many", "nothing=1", "queue"):
        with raises_for("--limit"):
            command("serve", "models", "--limit", bad)


def test_a_missing_extra_is_named(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "rankine.serve.server", None)
    with pytest.raises(MissingExtraError):
        CliRunner().invoke(app, ["serve", "models"], catch_exceptions=False)


def test_the_state_of_history_features_is_a_local_folder(command):
    with pytest.raises(ParameterError) as caught:
        command("serve", "m.rankine", "--state", "s3://shop/state")
    assert caught.value.parameter == "--state"
