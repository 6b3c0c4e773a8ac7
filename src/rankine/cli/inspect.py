"""``rankine inspect``: show a model file, or propose a schema for a raw log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankine.cli import _console
from rankine.cli._groups import reject_options
from rankine.cli._options import AsJson, Topic
from rankine.cli.main import app

if TYPE_CHECKING:
    from rankine.model import LinearModel, ModelBundle

#: Start of the header of a model file. Eight bytes with its length come first.
_MODEL_HEADER = b'{"__metadata__":{"digest"'
_EPILOG = """
[bold]Examples[/bold]

  rankine inspect model.rankine

  rankine inspect model.rankine --json | jq .top_weights

  rankine inspect topics.rankine --topic earn

  rankine inspect sofia.model --save model.rankine

  rankine inspect log.parquet --schema > shop.toml
"""


@app.command(epilog=_EPILOG)
def inspect(
    model: Annotated[
        str,
        typer.Argument(
            help="Model or bundle of rankine, sofia-ml or SVMrank; with --schema also a raw log."
        ),
    ],
    top: Annotated[int, typer.Option(help="Show the N largest weights.", metavar="N")] = 20,
    topic: Topic = None,
    save: Annotated[
        str | None,
        typer.Option(
            help="Also save the model as a rankine file, to convert one of sofia-ml or SVMrank."
        ),
    ] = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", help="Show the log columns of a model, or propose a schema for a raw log."
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Show a model: digest, metric, parameters, training and largest weights."""
    if schema:
        reject_options(("top", "topic", "save"), "cannot be combined with --schema")
        _show_schema(model, json=json)
        return
    loaded = _load(model)
    if topic is not None:
        from rankine.model.bundle import select_model

        loaded = select_model(loaded, topic)
    if save is not None:
        loaded.save(save)
        _console.print_status(f"wrote {save}")
    summary = loaded.summary(top)
    if json:
        _console.print_json(summary)
    else:
        from rankine.model.show import summary_text

        typer.echo(summary_text(summary, _console.terminal_width()))


def _show_schema(path: str, *, json: bool) -> None:
    """Print the schema of a model, or one proposed for a log, as TOML."""
    import msgspec

    from rankine.core.errors import ParameterError
    from rankine.logs import propose_schema, schema_of
    from rankine.model import LinearModel

    reasons: dict[str, str] = {}
    if _is_model(path):
        schema = schema_of(LinearModel.load(path))
        if schema is None:
            raise ParameterError(
                "the model reads features, not the columns of a log",
                parameter="schema",
                fix="Leave it out",
            )
    else:
        schema, reasons = propose_schema(path)
    if json:
        _console.print_json(msgspec.to_builtins(schema))
        return
    typer.echo(schema.to_toml(), nl=False)
    for column, reason in reasons.items():
        typer.echo(f"# {column}: {reason}")


def _is_model(path: str) -> bool:
    """Return whether a file starts like a rankine model."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(64)[8:].startswith(_MODEL_HEADER)


def _load(path: str) -> LinearModel | ModelBundle:
    from rankine.model.foreign import is_foreign, read_foreign
    from rankine.model.store import load_any

    if is_foreign(path):
        return read_foreign(path)
    return load_any(path)
