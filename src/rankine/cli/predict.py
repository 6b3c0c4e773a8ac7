"""``rankine predict``: write scores, a table of scores and ranks, or a TREC run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli._console import open_text_output
from rankine.cli._groups import reject_options
from rankine.cli._options import Files, ModelFile, split_list
from rankine.cli._reading import ModelReadingOptions, report_narrower_files
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.data import Dataset

_EPILOG = """
[bold]Examples[/bold]

  rankine predict model.rankine test.txt > scores.txt

  rankine predict model.rankine test.txt --trec --tag mine --out run.txt

  rankine predict model.rankine log.parquet --columns sku --out scores.parquet
"""


@app.command(epilog=_EPILOG)
def predict(
    model: ModelFile,
    data: Files,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            help="Output file, or - for stdout. A name that ends in .parquet gives a table of ids, "
            "scores and ranks.",
        ),
    ] = "-",
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
) -> None:
    """Score rows with a model: one score per line in row order, a table, or a TREC run."""
    import rankine
    from rankine.data.scores import write_scores
    from rankine.transforms.apply import score_dataset

    if not trec:
        reject_options(("tag", "k"), "needs --trec", fix="Leave it out, or add --trec")
    elif out.endswith(".parquet"):
        raise ParameterError(
            "writes text, and the name of the output ends in .parquet",
            parameter="trec",
            fix="Leave it out, or choose another name",
        )
    linear_model = rankine.LinearModel.load(model)
    source = reading.open(data, model=linear_model, stream=stream)
    blocks = source if stream else [source]
    scored = ((block, score_dataset(linear_model, block)) for block in blocks)
    if out.endswith(".parquet"):
        write_scores(scored, out, split_list(reading.columns))
    else:
        with open_text_output(out) as write:
            first_row = 0
            for block, scores in scored:
                # repr writes the shortest text that reads back as the same float.
                lines: Iterable[str] = map(repr, scores.tolist())
                if trec:
                    lines = _run_lines(block, scores, tag, k, first_row)
                for line in lines:
                    write(line + "\n")
                first_row += block.n_rows
    if stream:
        report_narrower_files(linear_model, source)


def _run_lines(
    data: Dataset, scores: Any, tag: str, k: int | None, first_row: int
) -> Iterator[str]:
    """Yield lines ``qid Q0 docid rank score tag``; a row without docid is called ``rowN``."""
    import numpy as np

    items = data.item_ids
    for q, query_id in enumerate(data.queries.ids.tolist()):
        rows = data.queries.rows_of(q)
        order = rows[np.argsort(-scores[rows], kind="stable")][:k]
        for rank, row in enumerate(order.tolist(), 1):
            docid = f"row{first_row + row}"
            if items is not None and items[row]:
                docid = str(items[row])
            yield f"{query_id} Q0 {docid} {rank} {float(scores[row])!r} {tag}"
