"""``rankine inspect``: what a model file holds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson, pick_model
from rankine.cli.main import app

_EPILOG = """
[bold]Examples[/bold]

  rankine inspect model.rankine

  rankine inspect model.rankine --json | jq .top_weights

  rankine inspect topics.rankine --topic earn

  rankine inspect sofia.model --save model.rankine
"""


@app.command(epilog=_EPILOG)
def inspect(
    model: Annotated[str, typer.Argument(help="Model or bundle; or one of sofia-ml or SVMrank.")],
    top: Annotated[int, typer.Option(help="How many of the heaviest weights to show.")] = 20,
    topic: Annotated[str | None, typer.Option(help="One model of a bundle.")] = None,
    save: Annotated[
        str | None, typer.Option(help="Also write it as a rankine model (converts foreign ones).")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show a model: size, heaviest weights, metric, transforms, how it was trained, digest."""
    from rankine.model.foreign import is_foreign, read_foreign
    from rankine.model.store import load_any

    found: Any = read_foreign(model) if is_foreign(model) else load_any(model)
    if topic is not None:
        found = pick_model(found, topic)
    if save is not None:
        found.save(save)
        _console.say(f"wrote {save}")
    data = found.summary(top)
    if json:
        _console.print_json(data)
    else:
        from rankine.model.show import summary_text

        typer.echo(summary_text(data))
