"""``rankine predict``: write scores, a table of scores and ranks, or a TREC run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from rankine.cli._console import check_output_paths, open_text_output
from rankine.cli._groups import reject_options
from rankine.cli._options import Files, ModelFile, split_list
from rankine.cli._reading import ModelReadingOptions, RuleOptions, report_narrower_files
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.data import Dataset
    from rankine.data.scores import ScoredRows

_EPILOG = """
[bold]Examples[/bold]

  rankine predict model.rankine test.txt > scores.txt

  rankine predict model.rankine test.txt --trec --tag mine --out run.txt

  rankine predict model.rankine log.parquet --columns sku --out scores.parquet

  rankine predict model.rankine log.parquet --rules rules.toml --trec

  rankine predict model.rankine log.parquet --probability --out p.parquet
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
    probability: Annotated[
        bool,
        typer.Option(
            "--probability", help="Write probabilities of the outcome; for calibrated models."
        ),
    ] = False,
    position: Annotated[
        str | None,
        typer.Option(
            help="With --probability: column of displayed positions (default: the most examined "
            "position for all rows)."
        ),
    ] = None,
    *,
    reading: ModelReadingOptions,
    following: RuleOptions,
) -> None:
    """Score rows with a model: one score per line in row order, a table, or a TREC run.

    With --rules, ranks follow the rules. The scores of a run then are numbers that fall by rank.
    """
    import rankine
    from rankine.data.scores import ScoredRows, write_scores
    from rankine.scoring.datasets import check_position_column, dataset_probabilities
    from rankine.scoring.probability import outcome_probabilities
    from rankine.transforms.apply import score_dataset

    if not probability:
        reject_options(("position",), "needs --probability")
    elif trec:
        raise ParameterError(
            "cannot be combined with --trec, which writes scores",
            parameter="probability",
            fix="Leave one of them out",
        )
    is_table = out.endswith(".parquet")
    if not trec:
        reject_options(("tag", "k"), "needs --trec", fix="Leave it out, or add --trec")
        if not is_table:
            fix = "Add --trec, or --out NAME.parquet"
            reject_options(("rules",), "changes ranks, and only scores are written", fix)
    elif is_table:
        raise ParameterError(
            "writes text, and the name of the output ends in .parquet",
            parameter="trec",
            fix="Leave it out, or choose another name",
        )
    check_output_paths(out=out)
    linear_model = rankine.LinearModel.load(model)
    rules = following.load()
    columns = following.columns(rules, linear_model)
    if probability:
        compute = outcome_probabilities(linear_model)
        columns = (*columns, *check_position_column(linear_model, position))
    source = reading.open(data, model=linear_model, stream=stream, columns=columns)

    def score(block: Dataset) -> ScoredRows:
        scores = score_dataset(linear_model, block)
        ranks = None
        if rules is not None:
            ranks = following.ranks(rules, block, scores)
        probabilities = None
        if probability:
            probabilities = dataset_probabilities(compute, block, scores, position)
        return ScoredRows(block, scores, ranks, probabilities)

    # Lazily, so that a stream is held in memory one block at a time.
    scored = map(score, source if stream else [source])
    if is_table:
        write_scores(scored, out, split_list(reading.columns))
    else:
        with open_text_output(out) as write:
            # Rows without a document id are named by their number in the input, not in the block.
            first_row = 0
            for rows in scored:
                # repr writes the shortest text that reads back as the same float.
                values = rows.scores if rows.probabilities is None else rows.probabilities
                lines: Iterable[str] = map(repr, values.tolist())
                if trec:
                    lines = _run_lines(rows, tag, k, first_row)
                for line in lines:
                    write(line + "\n")
                first_row += rows.data.n_rows
    if stream:
        # Only now: the width of a file is known after it was read.
        report_narrower_files(linear_model, source)


def _run_lines(scored: ScoredRows, tag: str, k: int | None, first_row: int) -> Iterator[str]:
    """Yield lines ``qid Q0 docid rank score tag``; a row without docid is called ``rowN``."""
    import numpy as np

    data, scores, ranks, _ = scored
    items = data.item_ids
    for q, query_id in enumerate(data.queries.ids.tolist()):
        rows = data.queries.rows_of(q)
        if ranks is None:
            order = rows[np.argsort(-scores[rows], kind="stable")]
            values = scores[order].tolist()
        else:
            # Rank 0: a rule has removed the item.
            rows = rows[ranks[rows] > 0]
            order = rows[np.argsort(ranks[rows])]
            # Readers of runs sort by score, so the scores must give the order of the rules.
            values = [float(len(order) - rank) for rank in range(len(order))]
        for rank, (row, value) in enumerate(zip(order[:k].tolist(), values[:k], strict=True), 1):
            docid = f"row{first_row + row}"
            if items is not None and items[row]:
                docid = str(items[row])
            yield f"{query_id} Q0 {docid} {rank} {value!r} {tag}"
