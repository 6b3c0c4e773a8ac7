"""``rankine export``: a model in the language of a search engine, a database or ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._options import ModelFile
from rankine.cli.main import app
from rankine.core.errors import ParameterError

_EPILOG = """
[bold]Examples[/bold]

  rankine export model.rankine --to elasticsearch --name products -o model.json

  rankine export model.rankine --to sql -o order_by.sql

  rankine export model.rankine --to vespa --form tensor -o weights.json

  rankine export fusion.rankine --to opensearch --form rrf -o pipeline.json

  rankine export model.rankine --to elasticsearch --feature-set products -o model.json

  rankine export model.rankine --to onnx --feature-names names.txt -o model.onnx
"""


@app.command(epilog=_EPILOG)
def export(
    model: ModelFile,
    to: Annotated[
        str,
        typer.Option(
            help="elasticsearch, opensearch, solr, vespa, onnx, xgboost, sql, json or python."
        ),
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Output file, - for stdout.")],
    name: Annotated[
        str, typer.Option(help="Name in the engine; the digest's start is appended.")
    ] = "rankine",
    store: Annotated[str, typer.Option(help="Solr: the feature store.")] = "_DEFAULT_",
    form: Annotated[
        str | None, typer.Option(help="Vespa: expression or tensor; of a fusion: linear or rrf.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="ONNX: float32 or float64.")] = "float32",
    feature_set: Annotated[
        str | None,
        typer.Option(
            help="Elasticsearch, OpenSearch, Solr: feature set, model and query, ready to send."
        ),
    ] = None,
    feature_names: Annotated[
        str | None, typer.Option(help="File with one feature name a line, for a model without.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(help="SQL, scale query: column of the list; default: that of the log."),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="One model of a bundle.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Say what was written as JSON.")] = False,
) -> None:
    """Export a model; one that the target cannot express is refused with the reason."""
    from rankine.export import ExportOptions
    from rankine.export import export as export_model
    from rankine.model.bundle import select_model
    from rankine.model.store import load_any

    if json and out == "-":
        raise ParameterError("--json and the model both want stdout", fix="Name an output file")
    found = select_model(load_any(model), topic)
    if feature_names is not None:
        found = found.renamed(Path(feature_names).read_text(encoding="utf-8").splitlines())
    options = ExportOptions(name, store, form, dtype, feature_set, query)
    result = export_model(found, to, options)
    files = {out: result.content}
    files.update({f"{out}{suffix}": content for suffix, content in result.extra_files.items()})
    _write(files)
    if result.remark:
        _console.print_status(result.remark)
    if json:
        _console.print_json(
            {
                "to": to,
                "name": options.versioned(found),
                "digest": found.digest,
                "nnz": found.nnz,
                "files": {path: len(content) for path, content in files.items()},
            }
        )
    elif out != "-":
        _console.print_status(f"wrote {' and '.join(files)}: {found.nnz} weights for {to}")


def _write(files: dict[str, bytes]) -> None:
    import sys

    from rankine.core.atomic import atomic_file

    for path, content in files.items():
        if path.startswith("-"):
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        else:
            with atomic_file(path) as file:
                file.write(content)
