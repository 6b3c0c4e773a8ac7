"""``rankine inspect``: what a model file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson
from rankine.cli.main import app

if TYPE_CHECKING:
    from rankine.model import LinearModel, ModelBundle

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
    found = _load(model)
    if topic is not None:
        found = _topic(found, topic)
    if save is not None:
        found.save(save)
        _console.say(f"wrote {save}")
    data = found.summary(top)
    if json:
        _console.print_json(data)
    else:
        from rankine.model.show import summary_text

        typer.echo(summary_text(data))


def _load(path: str) -> LinearModel | ModelBundle:
    from rankine.model.foreign import is_foreign, read_foreign
    from rankine.model.store import load_any

    return read_foreign(path) if is_foreign(path) else load_any(path)


def _topic(found: Any, topic: str) -> LinearModel:
    from rankine.core.errors import ParameterError
    from rankine.model import LinearModel

    if isinstance(found, LinearModel):
        raise ParameterError("this is a single model, not a bundle", fix="Leave --topic out")
    if topic not in found:
        raise ParameterError(
            f"the bundle has no topic {topic!r}", fix="rankine inspect BUNDLE lists the topics"
        )
    model: LinearModel = found[topic]
    return model
