"""``rankine compare``: whether one model or run is really better than another."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console, _data_options
from rankine.cli.app import app

_EPILOG = """
[bold]Examples[/bold]

  rankine compare old.rankine new.rankine test.txt --metric ndcg@10

  rankine compare bm25.run model.rankine test.txt --metric map --metric ndcg@10 --markdown

  rankine compare a.run b.run c.run qrels.txt --metric ndcg@10:gain=linear --json
"""


@app.command(epilog=_EPILOG)
def compare(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL_OR_RUN... DATA",
            help="Two or more model or TREC run files, then labelled data (or qrels for runs).",
        ),
    ],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Metric, repeatable.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    margin: Annotated[
        float, typer.Option(help="Differences this small do not matter (equivalence).")
    ] = 0.01,
    resamples: Annotated[int, typer.Option(help="Bootstrap samples and sign flips.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 0,
    changed: Annotated[
        int, typer.Option(help="Queries that changed most, shown per pair of systems.")
    ] = 3,
    depth: Annotated[int, typer.Option(help="Ranks shown of a changed query.")] = 10,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Per-query values in the JSON output.")
    ] = False,
    format: _data_options.Format = None,  # noqa: A002 - the option's name
    n_features: _data_options.NFeatures = None,
    base: _data_options.Base = 1,
    qid_type: _data_options.QidType = "int",
    missing: _data_options.Missing = "error",
    feature_names: _data_options.FeatureNames = None,
    label: _data_options.Label = "label",
    query: _data_options.Query = "qid",
    columns: _data_options.Columns = None,
    group: _data_options.Group = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="LaTeX tables.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown tables.")] = False,
) -> None:
    """Compare models and runs query by query: intervals, tests, wins, what changed."""
    from rankine.cli._comparison import compare_files, show

    options = _data_options.read_options(
        format=format,
        n_features=n_features,
        base=base,
        qid_type=qid_type,
        missing=missing,
        feature_names=feature_names,
        label=label,
        query=query,
        columns=columns,
        group=group,
        progress=_console.verbosity() >= 0,
    )
    found = compare_files(
        inputs,
        metric or ["ndcg@10"],
        options,
        confidence=confidence,
        margin=margin,
        n_resamples=resamples,
        random_state=seed,
        n_changed=changed,
        depth=depth,
    )
    if json:
        plain = [comparison.to_dict(per_query=per_query) for comparison in found]
        _console.print_json({"data": inputs[-1], "comparisons": plain})
    else:
        show(found, latex=latex, markdown=markdown)
