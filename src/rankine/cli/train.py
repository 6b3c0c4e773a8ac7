"""``rankine train``: from files to a model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console, _data_options
from rankine.cli.app import app

_EPILOG = """
[bold]Examples[/bold]

  rankine train train.txt --ranker spd --valid vali.txt --metric ndcg@10 --out model.rankine

  rankine train 'logs/*.txt.gz' --stream --set learner=hybrid --set n_iter=1000000 --out m.rankine

  rankine train - --ranker ranksvm --set lam=1e-4 --out m.rankine < train.txt
"""


@app.command(epilog=_EPILOG)
def train(
    data: Annotated[list[str], typer.Argument(help="Files, patterns, or - for stdin.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write the model.")],
    ranker: Annotated[
        str, typer.Option(help="spd, ranksvm, least-squares, domination, elastic.")
    ] = "spd",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter name=value, repeatable.")
    ] = None,
    valid: Annotated[str | None, typer.Option(help="Evaluation data.")] = None,
    metric: Annotated[
        str, typer.Option(help="Metric, such as ndcg@10, map, recall@4.")
    ] = "ndcg@10",
    scale: Annotated[str, typer.Option(help="none, standard, maxabs or query.")] = "none",
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    early_stopping: Annotated[
        int | None, typer.Option(help="Stop after so many reports without a better --valid metric.")
    ] = None,
    warm_start: Annotated[str | None, typer.Option(help="Model to start from.")] = None,
    stream: Annotated[bool, typer.Option(help="Train without holding the data in memory.")] = False,
    format: _data_options.Format = None,  # noqa: A002 - the option's name
    n_features: _data_options.NFeatures = None,
    base: _data_options.Base = 1,
    qid_type: _data_options.QidType = "int",
    missing: _data_options.Missing = "error",
    on_bad_row: _data_options.OnBadRow = "error",
    feature_names: _data_options.FeatureNames = None,
    dtype: _data_options.Dtype = None,
    label: _data_options.Label = "label",
    query: _data_options.Query = "qid",
    columns: _data_options.Columns = None,
    group: _data_options.Group = None,
    single_query: _data_options.SingleQuery = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Train a ranker on labelled lists and save the model."""
    from rankine.cli._settings import make_ranker, parse_settings
    from rankine.cli._training import fit_and_save, summary_table

    settings = {
        "metric": metric,
        "scale": scale,
        "random_state": seed,
        **({"early_stopping": early_stopping} if early_stopping is not None else {}),
        **parse_settings(set_ or []),
    }
    estimator = make_ranker(ranker, settings)
    options: dict[str, Any] = _data_options.read_options(
        format=format,
        n_features=n_features,
        base=base,
        qid_type=qid_type,
        missing=missing,
        on_bad_row=on_bad_row,
        feature_names=feature_names,
        dtype=dtype,
        label=label,
        query=query,
        columns=columns,
        group=group,
        single_query=single_query,
        progress=_console.verbosity() >= 0,
    )
    result = fit_and_save(
        estimator, data, options, valid=valid, out=out, warm_start=warm_start, stream=stream
    )
    if json:
        _console.print_json(result)
    else:
        _console.show(summary_table(result))
