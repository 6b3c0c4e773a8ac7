"""``rankine export``: write a model for a search engine, a database or another runtime."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, check_stdout_unused
from rankine.cli._options import ModelFile, Topic
from rankine.cli.main import app
from rankine.core.errors import ParameterError

_EPILOG = """
[bold]Examples[/bold]

  rankine export model.rankine --to elasticsearch --name products \\
      -o model.json

  rankine export model.rankine --to sql -o order_by.sql

  rankine export model.rankine --to vespa --form tensor -o weights.json

  rankine export fusion.rankine --to opensearch --form rrf -o pipeline.json

  rankine export model.rankine --to elasticsearch --feature-set products \\
      -o model.json

  rankine export model.rankine --to onnx --feature-names names.txt \\
      -o model.onnx
"""


@app.command(epilog=_EPILOG)
def export(
    model: ModelFile,
    to: Annotated[str, typer.Option(help="Export to this target: {targets}.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Output file, or - for stdout.")],
    name: Annotated[
        str,
        typer.Option(
            help="Name of the model in the engine, to which the start of its digest is appended."
        ),
    ] = "rankine",
    store: Annotated[str, typer.Option(help="Solr: name of the feature store.")] = "_DEFAULT_",
    form: Annotated[
        str | None,
        typer.Option(help="Vespa: expression or tensor. Fusion of retrievers: linear or rrf."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="ONNX: compute in float32 or float64.")] = "float32",
    feature_set: Annotated[
        str | None,
        typer.Option(
            help="Elasticsearch, OpenSearch, Solr: also write a feature set of this name and a "
            "query, ready to send to the engine."
        ),
    ] = None,
    feature_names: Annotated[
        str | None,
        typer.Option(help="File with one feature name per line, for a model without names."),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            help="SQL, for models with scale=query and for --probability: query column (default: "
            "the log's)."
        ),
    ] = None,
    probability: Annotated[
        bool,
        typer.Option(
            "--probability",
            help="SQL, for calibrated models: also write an expression of the probability.",
        ),
    ] = False,
    topic: Topic = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print what was written as one JSON object.")
    ] = False,
) -> None:
    """Export a model to a search engine, a database or another runtime.

    The command fails with the reason if the target cannot compute the same scores.
    """
    from rankine.export import ExportOptions
    from rankine.export import export as export_model
    from rankine.model.bundle import select_model
    from rankine.model.store import load_any

    check_stdout_unused(out, json=json)
    check_output_paths(out=out)
    linear_model = select_model(load_any(model), topic)
    if feature_names is not None:
        try:
            names = Path(feature_names).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise ParameterError(
                f"{feature_names} is not UTF-8 text",
                parameter="feature_names",
                fix="Write one name a line, UTF-8",
            ) from error
        linear_model = linear_model.renamed(names)
    options = ExportOptions(name, store, form, dtype, feature_set, query, probability)
    result = export_model(linear_model, to, options)
    files = {out: result.content}
    files |= {f"{out}{suffix}": content for suffix, content in result.extra_files.items()}
    # All files are built before the first is written, so that an error leaves no partial export.
    _write(files)
    if result.remark:
        _console.print_status(result.remark)
    if json:
        _console.print_json(
            {
                "to": to,
                "name": options.versioned(linear_model),
                "digest": linear_model.digest,
                "nnz": linear_model.nnz,
                "files": {path: len(content) for path, content in files.items()},
            }
        )
    elif out != "-":
        _console.print_status(f"wrote {' and '.join(files)}: {linear_model.nnz} weights for {to}")


def _write(files: dict[str, bytes]) -> None:
    """Write each file; if the output is -, write all of them to stdout."""
    from rankine.core.atomic import atomic_file

    for path, content in files.items():
        if path.startswith("-"):
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        else:
            with atomic_file(path) as file:
                file.write(content)
