"""``rankine explain``: explain the ranking of a query by the contributions of features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._groups import reject_options
from rankine.cli._options import AsJson, ModelFile
from rankine.cli._reading import ModelReadingOptions
from rankine.cli.main import app
from rankine.core.errors import ParameterError
from rankine.core.safe_text import printable

if TYPE_CHECKING:
    from rankine.data import Dataset

_EPILOG = """
[bold]Examples[/bold]

  rankine explain model.rankine test.txt --qid 10

  rankine explain model.rankine test.txt --qid 10 --docs GX1-2 GX7-1
"""


@app.command(epilog=_EPILOG)
def explain(
    model: ModelFile,
    data: Annotated[str, typer.Argument(help="Data file, or - for stdin.")],
    qid: Annotated[str, typer.Option(help="Id of the query to explain.")],
    docs: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="Explain the difference of the scores of two documents, given by docid or by row "
            "within the query, from 1."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Explain the k best documents.")] = 3,
    top: Annotated[int, typer.Option(min=0, help="Print this many features per document.")] = 10,
    json: AsJson = False,
    *,
    reading: ModelReadingOptions,
) -> None:
    """Explain the best documents of a query, or why document A ranks above B."""
    import rankine
    from rankine.transforms.apply import align_columns

    if docs:
        reject_options(("k",), "cannot be combined with --docs")
    # Values are shown as the data has them; the scorer applies the transforms.
    linear_model = rankine.LinearModel.load(model)
    data_set = reading.open(data, model=linear_model, progress=False)
    rows = align_columns(linear_model, _rows_of_query(data_set, qid))
    scorer = rankine.Scorer(linear_model)
    text = None if rows.query_texts is None else str(rows.query_texts[0])
    overall: dict[str, float] = {}
    # A rate means little alone, so it is printed relative to the rate over all keys.
    if rows.encoding is not None and rows.encoding.history is not None:
        overall = rows.encoding.history.overall_rates(rows.qid[0])
    explanations: list[tuple[str, Any, list[int]]] = []
    # Two documents: the terms of their difference. Otherwise each of the best documents alone.
    if docs:
        a = _row_of_document(rows, docs[0])
        b = _row_of_document(rows, docs[1])
        title = f"a = {_describe(rows, a)}, b = {_describe(rows, b)}"
        explanations.append((title, scorer.explain_pair(rows.X, a, b), [a, b]))
    else:
        for rank, row in enumerate(scorer.rank(rows.X, k).indices.tolist(), 1):
            title = f"{rank}. {_describe(rows, row)}"
            explanations.append((title, scorer.explain(rows.X, row), [row]))
    if json:
        dicts = [{"title": title, **each.to_dict(top)} for title, each, _ in explanations]
        rates = {"overall_rates": overall} if overall else {}
        _console.print_json({"query": qid, "text": text, "explanations": dicts, **rates})
    else:
        width = _console.terminal_width()
        heading = qid if text is None else f"{qid}: {text}"
        _console.print_result(f"query {printable(heading)}")
        for title, each, numbers in explanations:
            _console.print_result(f"\n{printable(title)}\n{each.text(top, width)}")
            for row in numbers:
                for line in _compare_rates(rows, row, overall):
                    _console.print_result(line)


def _compare_rates(data: Dataset, row: int, overall: dict[str, float]) -> list[str]:
    """Return a line for each rate of the history of a row, with the rate over all keys."""
    lines = []
    for name, rate in overall.items():
        value = float(data.columns[name][row])
        if rate > 0:
            lines.append(
                f"{printable(name)} {value:.2g}, {value / rate:.1f} times the overall rate"
            )
    return lines


def _rows_of_query(data: Dataset, query: str) -> Dataset:
    """Return the rows of one query."""
    # The shell passes text, whatever the type of the ids.
    ids = [str(query_id) for query_id in data.queries.ids.tolist()]
    if query not in ids:
        examples = ", ".join(printable(query_id) for query_id in ids[:5])
        raise ParameterError(
            f"the data has no query {query!r}",
            parameter="qid",
            fix=f"Its queries start with {examples}",
        )
    return data.take(data.queries.rows_of(ids.index(query)))


def _row_of_document(data: Dataset, document: str) -> int:
    """Return the row of a document given by docid or by its row in the query, from 1."""
    if data.item_ids is not None:
        docids = [str(docid) for docid in data.item_ids.tolist()]
        if document in docids:
            return docids.index(document)
    # A docid that is a number takes precedence over the row of that number.
    if document.isascii() and document.isdigit() and 1 <= int(document) <= data.n_rows:
        return int(document) - 1
    raise ParameterError(
        f"the query has no document {document!r}",
        parameter="docs",
        fix=f"Pass a docid, or a row from 1 to {data.n_rows}",
    )


def _describe(data: Dataset, row: int) -> str:
    """Return the item or number of a row, and its label."""
    name = f"row {row + 1}"
    if data.item_ids is not None and data.item_ids[row]:
        name = str(data.item_ids[row])
    return f"{name} (label {data.y[row]:g})"
