"""``rankine predict``: write scores or a TREC run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli._console import open_text_output
from rankine.cli._groups import reject_options
from rankine.cli._options import Files, ModelFile
from rankine.cli._reading import ModelReadingOptions, RuleOptions, report_narrower_files
from rankine.cli.main import app

if TYPE_CHECKING:
    from rankine.data import Dataset
    from rankine.reranking import Rules

_EPILOG = """
[bold]Examples[/bold]

  rankine predict model.rankine test.txt > scores.txt

  rankine predict model.rankine test.txt --trec --tag mine --out run.txt

  rankine predict model.rankine log.parquet --rules rules.toml --trec
"""


@app.command(epilog=_EPILOG)
def predict(
    model: ModelFile,
    data: Files,
    out: Annotated[str, typer.Option("--out", "-o", help="Output file, or - for stdout.")] = "-",
    trec: Annotated[bool, typer.Option("--trec", help="Write a TREC run, best first.")] = False,
    tag: Annotated[str, typer.Option(help="Name of the run, with --trec.")] = "rankine",
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="With --trec: write only the best k items of each query."),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Read block by block; the rows of a query must be contiguous."
        ),
    ] = False,
    *,
    reading: ModelReadingOptions,
    following: RuleOptions,
) -> None:
    """Score rows with a model: one score per line in row order, or a TREC run.

    With --rules, the run follows the rules, and its scores are numbers of ranks.
    """
    import rankine
    from rankine.transforms.apply import score_dataset

    if not trec:
        reject_options(("tag", "k", "rules"), "needs --trec", fix="Leave it out, or add --trec")
    linear_model = rankine.LinearModel.load(model)
    rules = following.load()
    columns = following.columns(rules, linear_model)
    source = reading.open(data, model=linear_model, stream=stream, columns=columns)
    blocks = source if stream else [source]
    with open_text_output(out) as write:
        for block in blocks:
            scores = score_dataset(linear_model, block)
            # repr writes the shortest text that reads back as the same float.
            if rules is not None:
                lines = _ruled_lines(block, scores, tag, k, rules, following.time)
            elif trec:
                lines = _run_lines(block, scores, tag, k)
            else:
                lines = map(repr, scores.tolist())
            for line in lines:
                write(line + "\n")
    if stream:
        report_narrower_files(linear_model, source)


def _run_lines(data: Dataset, scores: Any, tag: str, k: int | None) -> Iterator[str]:
    """Yield the lines of all queries, best first."""
    import numpy as np

    for q, query_id in enumerate(data.queries.ids.tolist()):
        rows = data.queries.rows_of(q)
        order = rows[np.argsort(-scores[rows], kind="stable")][:k]
        yield from _query_lines(data, query_id, order.tolist(), scores[order].tolist(), tag)


def _ruled_lines(
    data: Dataset, scores: Any, tag: str, k: int | None, rules: Rules, time: float | None
) -> Iterator[str]:
    """Yield the lines of all queries in the order of the rules, with scores that fall by rank."""
    from rankine.reranking.datasets import rank_lists

    lists = rank_lists(rules, data, scores, time=time)
    for query_id, (rows, ranking) in zip(data.queries.ids.tolist(), lists, strict=True):
        order = rows[ranking.order]
        falling = [float(len(order) - r) for r in range(len(order))]
        yield from _query_lines(data, query_id, order[:k].tolist(), falling[:k], tag)


def _query_lines(
    data: Dataset, query_id: Any, order: list[int], scores: list[float], tag: str
) -> Iterator[str]:
    """Yield lines ``qid Q0 docid rank score tag``; a row without docid is called ``rowN``."""
    items = data.item_ids
    for rank, (row, score) in enumerate(zip(order, scores, strict=True), 1):
        docid = f"row{row}"
        if items is not None and items[row]:
            docid = str(items[row])
        yield f"{query_id} Q0 {docid} {rank} {score!r} {tag}"
