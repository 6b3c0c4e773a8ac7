"""``rankine serve``: serve models over HTTP."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import typer

from rankine.cli import _console
from rankine.cli._groups import option_names, option_panel, reject_options
from rankine.cli.main import app
from rankine.core.errors import MissingExtraError, ParameterError
from rankine.core.safe_text import mask_secrets
from rankine.core.stores import local_path
from rankine.core.text_table import wrap_text

#: Number of model names that are printed at the start.
_MAX_NAMES = 5
_LOG_LEVELS = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.DEBUG}
_EPILOG = """
[bold]Examples[/bold]

  rankine serve shop.rankine

  rankine serve models/ --port 9000 --limit body_bytes=4194304

  rankine serve shop.rankine --state history/

  rankine serve models/ --host 0.0.0.0 --token-file /run/secrets/token

  curl -s localhost:8080/v1/rank -H 'content-type: application/json' \\
      -d '{"items": [{"id": "a", "features": {"bm25": 2}}]}'
"""


_history = option_panel("History features")


@dataclass(frozen=True)
class HistoryOptions:
    """Options of the state of history features."""

    state: Annotated[
        str | None,
        _history(metavar="DIR", help="Folder of the state of history features."),
    ] = None
    events_token_file: Annotated[
        str | None,
        _history(help="File with a bearer token for POST /v1/events only."),
    ] = None
    fsync: Annotated[
        str,
        _history(
            metavar="always|interval",
            help="Flush events to disk before each reply, or once a second.",
        ),
    ] = "interval"
    join_ttl: Annotated[
        str, _history(metavar="DURATION", help="Accept outcomes of a shown list for this long.")
    ] = "24h"
    max_keys: Annotated[
        int | None,
        _history(
            min=1,
            help="Number of keys per history feature; with more, the least recently updated ones "
            "go, and features may differ from training (default: no limit).",
        ),
    ] = None
    snapshot_rows: Annotated[
        int, _history(min=1, help="Write a snapshot after this number of rows and outcomes.")
    ] = 1_000_000

    def settings(self) -> dict[str, Any]:
        """Return the fields of the server's settings."""
        from rankine.history.declarations import parse_duration
        from rankine.serve.history import FSYNC_MODES, StateSettings
        from rankine.serve.security import read_token

        if self.state is None:
            names = [name for name in option_names(HistoryOptions) if name != "state"]
            reject_options(names, "applies to history features only", "Add --state DIR")
            return {}
        if self.fsync not in FSYNC_MODES:
            raise ParameterError(
                f"{self.fsync!r} is not a choice",
                parameter="fsync",
                fix=f"Choose {' or '.join(FSYNC_MODES)}",
            )
        settings: dict[str, Any] = {
            "state": StateSettings(
                local_path(self.state, "state"),
                self.fsync == "always",
                parse_duration(self.join_ttl, "join_ttl"),
                self.max_keys,
                self.snapshot_rows,
            )
        }
        if self.events_token_file is not None:
            settings["events_token"] = read_token(self.events_token_file, "events_token_file")
        return settings


@app.command(epilog=_EPILOG)
def serve(
    models: Annotated[
        str, typer.Argument(metavar="MODEL_OR_FOLDER", help="Model file, or a folder of them.")
    ],
    *,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="Listen on this port; 0 chooses a free one."
        ),
    ] = 8080,
    host: Annotated[str, typer.Option(help="Listen on this address.")] = "127.0.0.1",
    token_file: Annotated[
        str | None, typer.Option(help="File with the bearer token that requests must send.")
    ] = None,
    allow_unauthenticated: Annotated[
        bool,
        typer.Option("--allow-unauthenticated", help="Serve on a public address without a token."),
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Accept this name in Host headers; repeatable.")
    ] = None,
    reload_every: Annotated[
        float,
        typer.Option(min=0.05, metavar="SECONDS", help="Check for changed model files this often."),
    ] = 1.0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse raw items with unknown or missing columns.")
    ] = False,
    history: HistoryOptions,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="Set a limit, NAME=VALUE; repeatable. --show-limits lists the limits."),
    ] = None,
    show_limits: Annotated[
        bool, typer.Option("--show-limits", help="Print the limits and exit.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="When ready, print one JSON object on one line.")
    ] = False,
) -> None:
    """Serve models over HTTP: POST /v1/rank and /v1/score, and a page to try them at /.

    With --state, models with history features compute these from the state. POST /v1/events keeps
    the state up to date; without events, newer snapshots in the folder replace it.

    A changed model file is loaded, verified and tested on the rows stored in it. If all is well, it
    replaces the old model; otherwise the old model stays. SIGHUP checks the files immediately.
    SIGTERM finishes the requests that have arrived, then stops the server.
    """
    limits = _parse_limits(limit or [])
    if show_limits:
        _console.print_json(msgspec.to_builtins(limits))
        return
    try:
        from rankine.serve.server import Settings
        from rankine.serve.server import serve as run
    except ImportError as error:
        raise MissingExtraError(
            f"rankine serve needs {error.name}", fix="pip install 'rankine[serve]'"
        ) from error
    from rankine.serve.security import read_token

    log_handler = logging.StreamHandler()
    log_handler.setFormatter(_LogFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=_LOG_LEVELS[_console.verbosity()], handlers=[log_handler])
    if _console.verbosity() >= 0:
        # Loaded models are logged at INFO, at which other libraries would log too much.
        logging.getLogger("rankine.serve").setLevel(logging.INFO)
    token = None if token_file is None else read_token(token_file)
    settings = Settings(
        path=models,
        host=host,
        port=port,
        token=token,
        allow_unauthenticated=allow_unauthenticated,
        allowed_hosts=tuple(allow_host or ()),
        reload_seconds=reload_every,
        limits=limits,
        strict=strict,
        **history.settings(),
    )
    run(settings, lambda status: _print_started(status, json=json))


class _LogFormatter(logging.Formatter):
    """Format records as lines, which a terminal shows wrapped at spaces."""

    def format(self, record: logging.LogRecord) -> str:
        width = _console.terminal_width(stderr=True)
        return "\n".join(wrap_text(mask_secrets(super().format(record)), width))


def _parse_limits(texts: list[str]) -> Any:
    """Parse texts ``NAME=VALUE``; the other limits keep their defaults."""
    from rankine.serve.limits import Limits

    values = dict(text.partition("=")[::2] for text in texts)
    try:
        return msgspec.convert(values, Limits, strict=False)
    except msgspec.ValidationError as error:
        raise ParameterError(
            str(error),
            parameter="limit",
            fix=f"Limits are {', '.join(Limits.__struct_fields__)}",
        ) from error


def _print_started(status: dict[str, Any], *, json: bool) -> None:
    """Print the address, the models and the limits of a server that is ready."""
    if json:
        _console.print_json(status)
        sys.stdout.flush()  # a parent process waits for this line
        return
    names = ", ".join(status["models"][:_MAX_NAMES])
    if len(status["models"]) > _MAX_NAMES:
        names += " ..."
    limits = status["limits"]
    _console.print_status(f"serving {names} on {status['url']} (stop with Ctrl+C)")
    _console.print_status(
        f"limits: header {limits['header_seconds']:g} s, request {limits['request_seconds']:g} s, "
        f"idle {limits['idle_seconds']:g} s, body {limits['body_bytes']:,} bytes, "
        f"{limits['items']:,} items per list, {limits['connections']:,} connections, "
        f"queue {limits['queue']}"
    )
