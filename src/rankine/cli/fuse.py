"""``rankine fuse``: learn the weights of hybrid search from judgements."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_tables
from rankine.cli._groups import require_one_format
from rankine.cli._options import AsJson, AsMarkdown, Seed
from rankine.cli.main import app

_EPILOG = """
[bold]Examples[/bold]

  rankine fuse bm25.run dense.run --qrels qrels.txt --out fusion.rankine

  rankine fuse bm25.run dense.run sparse.run --qrels qrels.txt \\
      --engine elasticsearch --json

  rankine fuse scores.parquet --normalization min_max --metric map \\
      --out fusion.rankine
"""


@app.command(epilog=_EPILOG)
def fuse(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="TREC runs; or one Parquet file with qid, docid, label and a column per run.",
        ),
    ],
    qrels: Annotated[str | None, typer.Option(help="TREC judgements.")] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Write the model to this file.")
    ] = None,
    data_out: Annotated[
        str | None,
        typer.Option(help="Also write the joined rows, for evaluate, compare and report."),
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", "-m", help="Maximise this metric: {metrics}.")
    ] = "ndcg@10",
    normalization: Annotated[
        str | None,
        typer.Option(
            help="Normalise scores by this rule: min_max, l2, z_score or reciprocal_rank "
            "(default: the best of the four)."
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Combine scores as this engine does: opensearch, elasticsearch, vespa or solr."
        ),
    ] = "opensearch",
    rank_constant: Annotated[
        float, typer.Option(help="Constant c of reciprocal ranks, 1 / (c + rank).")
    ] = 60.0,
    n_folds: Annotated[int, typer.Option(help="Number of cross-validation folds.")] = 5,
    margin: Annotated[
        float, typer.Option(help="Recommend equal weights if learned ones gain less than this.")
    ] = 0.01,
    seed: Seed = 0,
    json: AsJson = False,
    markdown: AsMarkdown = False,
) -> None:
    """Learn the weights of hybrid search from TREC runs and judgements.

    The weights are compared with equal weights, RRF and a grid search on held-out queries.
    """
    from rankine.evaluation.fusion import fuse as fuse_runs

    require_one_format(json=json, markdown=markdown)
    check_output_paths(out=out, data_out=data_out)
    result = fuse_runs(
        runs,
        qrels,
        metric=metric,
        normalization=normalization,
        engine=engine,
        rank_constant=rank_constant,
        n_folds=n_folds,
        margin=margin,
        random_state=seed,
    )
    if out is not None:
        result.model.save(out)
    if data_out is not None:
        result.data.save(data_out)
    if json:
        _console.print_json({"out": out, **result.to_dict()})
        return
    print_tables(result.tables(), markdown=markdown)
    _console.print_status(result.verdict)
    if out is not None:
        _console.print_status(f"wrote {out}")
