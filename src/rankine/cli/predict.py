"""``rankine predict``: scores or a TREC run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli._options import (
    Files,
    ModelFile,
    ModelReadingOptions,
    reject_options,
    report_narrower_files,
)
from rankine.cli.main import app

_EPILOG = """
[bold]Examples[/bold]

  rankine predict model.rankine test.txt > scores.txt

  rankine predict model.rankine test.txt --trec --tag mine --out run.txt
"""


@app.command(epilog=_EPILOG)
def predict(
    model: ModelFile,
    data: Files,
    out: Annotated[str, typer.Option("--out", "-o", help="Output file, - for stdout.")] = "-",
    trec: Annotated[bool, typer.Option("--trec", help="Write a TREC run, best first.")] = False,
    tag: Annotated[str, typer.Option(help="Name of the run.")] = "rankine",
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Only the best k of each query (--trec).")
    ] = None,
    stream: Annotated[
        bool, typer.Option(help="Read block by block; queries must be contiguous.")
    ] = False,
    *,
    reading: ModelReadingOptions,
) -> None:
    """Score rows with a model: one score per line, in row order, or a TREC run."""
    import rankine
    from rankine.cli._console import open_text_output
    from rankine.transforms.apply import score_dataset

    if not trec:
        reject_options(("tag", "k"), "belongs to --trec", fix="Leave it out, or add --trec")
    fitted = rankine.LinearModel.load(model)
    read = reading.open(data, model=fitted, stream=stream)
    blocks: Any = read if stream else [read]
    with open_text_output(out) as write:
        for block in blocks:
            scores = score_dataset(fitted, block)
            for line in _run_lines(block, scores, tag, k) if trec else map(repr, scores.tolist()):
                write(line + "\n")
    if stream:
        report_narrower_files(fitted, read)


def _run_lines(data: Any, scores: Any, tag: str, k: int | None) -> Any:
    """``qid Q0 docid rank score tag``; rows without a docid are named by their row number."""
    import numpy as np

    index = data.queries
    for q, query_id in enumerate(index.ids.tolist()):
        rows = index.rows_of(q)
        order = rows[np.argsort(-scores[rows], kind="stable")][:k]
        for rank, row in enumerate(order.tolist(), 1):
            docid = f"row{row}" if data.docid is None or not data.docid[row] else data.docid[row]
            yield f"{query_id} Q0 {docid} {rank} {float(scores[row])!r} {tag}"
