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

  rankine train log.parquet --ranker elastic --query session_id --label 'clicked + 4*purchased' \\
      --categorical brand,category --numeric price --out m.rankine
"""


_RUN = "Long runs"
_LOG = "Raw logs (Parquet, Arrow)"


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
    scale: Annotated[
        str | None,
        typer.Option(help="none, standard, maxabs or query; default: none, raw logs query."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    early_stopping: Annotated[
        int | None, typer.Option(help="Stop after so many reports without a better --valid metric.")
    ] = None,
    warm_start: Annotated[str | None, typer.Option(help="Model to start from.")] = None,
    stream: Annotated[bool, typer.Option(help="Train without holding the data in memory.")] = False,
    passes: Annotated[int, typer.Option(help="Passes over a stream.")] = 1,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Folder of checkpoints (elastic, streams).", rich_help_panel=_RUN),
    ] = None,
    every: Annotated[
        int, typer.Option(help="Lists between checkpoints.", rich_help_panel=_RUN)
    ] = 100_000,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint.", rich_help_panel=_RUN)
    ] = False,
    categorical: Annotated[
        str | None, typer.Option(help="Columns to hash, comma-separated.", rich_help_panel=_LOG)
    ] = None,
    numeric: Annotated[
        str | None, typer.Option(help="Columns to use as numbers.", rich_help_panel=_LOG)
    ] = None,
    one_hot: Annotated[
        str | None, typer.Option(help="Columns with a feature per value.", rich_help_panel=_LOG)
    ] = None,
    cross: Annotated[
        list[str] | None,
        typer.Option(help="Columns to hash together, a*b; repeatable.", rich_help_panel=_LOG),
    ] = None,
    hash_bits: Annotated[
        int, typer.Option(help="The hashed space has 2^N features.", rich_help_panel=_LOG)
    ] = 20,
    position: Annotated[
        str | None, typer.Option(help="Column of displayed positions.", rich_help_panel=_LOG)
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="time:9/11,1/11,1/11: train, valid, test by time.", rich_help_panel=_LOG),
    ] = None,
    time_column: Annotated[
        str | None, typer.Option(help="Column of times; default: file order.", rich_help_panel=_LOG)
    ] = None,
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
    from rankine.cli._training import LogColumns, Run, summary_table, train_files, train_log
    from rankine.core.errors import ParameterError

    log = LogColumns.given(categorical, numeric, one_hot, cross, hash_bits, position)
    settings = {
        "metric": metric,
        "scale": scale or ("none" if log is None else "query"),
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
    run = Run(out, valid, warm_start, stream or checkpoint is not None, passes)
    if checkpoint is not None or resume:
        run = run.with_checkpoints(checkpoint, every, resume=resume)
    if log is not None:
        result = train_log(estimator, data, options, run, log, split=split, time_column=time_column)
    elif split is not None or time_column is not None:
        raise ParameterError(
            "--split and --time-column cut raw logs",
            fix="Name the log's columns (--categorical, --numeric), or pass --valid",
        )
    else:
        result = train_files(estimator, data, options, run)
    if json:
        _console.print_json(result)
    else:
        _console.show(summary_table(result))
