"""``rankine train``: from files to a model."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._options import Cluster, Reading, spread
from rankine.cli._train_options import Checkpoints, LogColumns
from rankine.cli.main import app

_EPILOG = """
[bold]Examples[/bold]

  rankine train train.txt --ranker spd --valid vali.txt --metric ndcg@10 --out model.rankine

  rankine train 'logs/*.txt.gz' --stream --set solver=hybrid --set n_steps=1000000 --out m.rankine

  rankine train - --ranker ranksvm --set l2=1e-4 --out m.rankine < train.txt

  rankine train log.parquet --ranker elastic --query session_id --label 'clicked + 4*purchased' \\
      --categorical brand,category --numeric price --out m.rankine

  rankine train 'logs/*.parquet' --ranker ranksvm --dask tcp://host:8786 --checkpoint kept \
      --out m.rankine
"""


@app.command(epilog=_EPILOG)
@spread
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
    n_passes: Annotated[
        int | None,
        typer.Option(help="Passes over a stream, over partitions or (elastic) the lists."),
    ] = None,
    *,
    kept: Checkpoints,
    cluster: Cluster,
    log: LogColumns,
    reading: Reading,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Train a ranker on labelled lists and save the model."""
    from rankine.cli._options import make_ranker, parse_settings
    from rankine.cli._training import Run, summary_table, train_files, train_log

    settings = {
        "metric": metric,
        "scale": scale or ("query" if log.named else "none"),
        "random_state": seed,
        **({"early_stopping": early_stopping} if early_stopping is not None else {}),
        **({"n_passes": n_passes} if n_passes is not None else {}),
        **parse_settings(set_ or []),
    }
    estimator = make_ranker(ranker, settings)
    options = reading.options()
    cluster.check(raw_log=log.named, stream=stream)
    run = Run(out, valid, warm_start, stream or kept.asked, kept.options())
    if log.named:
        result = train_log(estimator, data, options, run, log)
    else:
        log.refuse_split()
        result = train_files(estimator, data, options, run, cluster)
    if json:
        _console.print_json(result)
    else:
        _console.show(summary_table(result))
