"""``rankine inspect``: what a model file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson, reject_options
from rankine.cli.main import app

if TYPE_CHECKING:
    from rankine.model import LinearModel, ModelBundle

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
        typer.Argument(help="Model or bundle; or one of sofia-ml or SVMrank; a log for --schema."),
    ],
    top: Annotated[int, typer.Option(help="How many of the heaviest weights to show.")] = 20,
    topic: Annotated[str | None, typer.Option(help="One model of a bundle.")] = None,
    save: Annotated[
        str | None, typer.Option(help="Also write it as a rankine model (converts foreign ones).")
    ] = None,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="The columns of a model's log; or a proposal for a raw log."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Show a model: size, heaviest weights, metric, transforms, how it was trained, digest."""
    if schema:
        reject_options(("top", "topic", "save"), "says nothing to --schema")
        _show_schema(model, json=json)
        return
    found = _load(model)
    if topic is not None:
        from rankine.model.bundle import select_model

        found = select_model(found, topic)
    if save is not None:
        found.save(save)
        _console.print_status(f"wrote {save}")
    data = found.summary(top)
    if json:
        _console.print_json(data)
    else:
        from rankine.model.show import summary_text

        typer.echo(summary_text(data))


def _show_schema(path: str, *, json: bool) -> None:
    """The schema of a model, or one proposed for a log, as TOML."""
    import msgspec

    from rankine.core.errors import ParameterError
    from rankine.logs import propose_schema, schema_of
    from rankine.model import LinearModel

    why: dict[str, str] = {}
    if _is_model(path):
        found = schema_of(LinearModel.load(path))
        if found is None:
            raise ParameterError(
                "the model reads features, not the columns of a log", fix="Leave --schema out"
            )
    else:
        found, why = propose_schema(path)
    if json:
        _console.print_json(msgspec.to_builtins(found))
        return
    typer.echo(found.to_toml(), nl=False)
    for name, reason in why.items():
        typer.echo(f"# {name}: {reason}")


def _is_model(path: str) -> bool:
    from pathlib import Path

    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(64)[8:].startswith(b'{"__metadata__":{"digest"')


def _load(path: str) -> LinearModel | ModelBundle:
    from rankine.model.foreign import is_foreign, read_foreign
    from rankine.model.store import load_any

    return read_foreign(path) if is_foreign(path) else load_any(path)
