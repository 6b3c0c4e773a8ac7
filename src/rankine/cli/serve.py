"""``rankine serve``: models behind HTTP."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli.main import app

_EPILOG = """
[bold]Examples[/bold]

  rankine serve shop.rankine

  rankine serve models/ --port 9000 --limit body_bytes=4194304

  rankine serve models/ --host 0.0.0.0 --token-file /run/secrets/token

  curl -s localhost:8080/v1/rank -H 'content-type: application/json' \\
    -d '{"items": [{"id": "a", "features": {"bm25": 2}}, {"id": "b", "features": {"bm25": 3}}]}'
"""


@app.command(epilog=_EPILOG)
def serve(
    models: Annotated[
        str, typer.Argument(metavar="MODEL_OR_FOLDER", help="Model file, or a folder of them.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    host: Annotated[str, typer.Option(help="Address to bind.")] = "127.0.0.1",
    token_file: Annotated[
        str | None, typer.Option(help="File with the bearer token that requests must bring.")
    ] = None,
    allow_unauthenticated: Annotated[
        bool, typer.Option(help="Serve a public address without a token.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Name accepted in Host headers, repeatable.")
    ] = None,
    reload_every: Annotated[
        float, typer.Option(min=0.05, help="Seconds between looks for changed model files.")
    ] = 1.0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse raw items with unknown or missing columns.")
    ] = False,
    limit: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of a limit, repeatable; see --show-limits.")
    ] = None,
    show_limits: Annotated[
        bool, typer.Option("--show-limits", help="Print the limits and stop.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="When ready, print one JSON object on one line.")
    ] = False,
) -> None:
    """Serve models: POST /v1/rank and /v1/score, and a page to try them at /.

    Model files are watched: a new one is loaded, checked, tested on the rows stored in it, and
    then takes the place of the old one; a bad one changes nothing. SIGHUP looks at once, SIGTERM
    answers what has arrived and stops.
    """
    import logging

    import msgspec

    limits = _limits(limit or [])
    if show_limits:
        _console.print_json(msgspec.to_builtins(limits))
        return
    try:
        from rankine.serve.server import Settings
        from rankine.serve.server import serve as run
    except ImportError as error:
        from rankine.core.errors import MissingExtraError

        raise MissingExtraError(
            f"rankine serve needs {error.name}", fix="pip install 'rankine[serve]'"
        ) from error
    from rankine.serve.security import read_token

    level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.DEBUG}[_console.verbosity()]
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if _console.verbosity() >= 0:
        logging.getLogger("rankine.serve").setLevel(logging.INFO)
    settings = Settings(
        models,
        host,
        port,
        None if token_file is None else read_token(token_file),
        allow_unauthenticated,
        tuple(allow_host or ()),
        reload_every,
        limits,
        strict,
    )
    run(settings, lambda facts: _started(facts, json))


def _limits(given: list[str]) -> Any:
    import msgspec

    from rankine.core.errors import ParameterError
    from rankine.serve.limits import Limits

    values = dict(text.partition("=")[::2] for text in given)
    try:
        return msgspec.convert(values, Limits, strict=False)
    except msgspec.ValidationError as error:
        raise ParameterError(
            f"--limit: {error}", fix=f"Limits are {', '.join(Limits.__struct_fields__)}"
        ) from error


def _started(facts: dict[str, Any], json: bool) -> None:
    if json:
        import sys

        _console.print_json(facts)
        sys.stdout.flush()
        return
    names = ", ".join(facts["models"][:5]) + (" ..." if len(facts["models"]) > 5 else "")
    limits = facts["limits"]
    _console.print_status(f"serving {names} on {facts['url']} (stop with Ctrl+C)")
    _console.print_status(
        f"limits: header {limits['header_seconds']:g} s, request {limits['request_seconds']:g} s, "
        f"idle {limits['idle_seconds']:g} s, body {limits['body_bytes']:,} bytes, "
        f"{limits['items']:,} items a list, {limits['connections']:,} connections, "
        f"queue {limits['queue']}"
    )
