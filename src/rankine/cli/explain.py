"""``rankine explain``: why documents of a query stand where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson, ModelFile, ModelReadingOptions, reject_options
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
        typer.Option(help="Two documents A B, by docid or by place in the query's rows from 1."),
    ] = None,
    k: Annotated[
        int, typer.Option("-k", min=1, help="How many of the best documents to explain.")
    ] = 3,
    top: Annotated[int, typer.Option(min=0, help="How many features to show.")] = 10,
    json: AsJson = False,
    *,
    reading: ModelReadingOptions,
) -> None:
    """Explain the best documents of a query, or why document A stands above B; exact."""
    import rankine
    from rankine.transforms.apply import align_columns

    if docs:
        reject_options(("k",), "explains the best documents, and --docs names two")
    fitted = rankine.LinearModel.load(model)
    read = reading.open(data, model=fitted, progress=False)
    rows = align_columns(fitted, _rows_of(read, qid))
    scorer = rankine.Scorer(fitted)
    if docs:
        a, b = (_row_of(rows, doc) for doc in docs)
        title = f"a = {_described(rows, a)}, b = {_described(rows, b)}"
        result: list[tuple[str, Any]] = [(title, scorer.explain_pair(rows.X, a, b))]
    else:
        best = enumerate(scorer.rank(rows.X, k).indices.tolist(), 1)
        result = [(f"{n}. {_described(rows, i)}", scorer.explain(rows.X, i)) for n, i in best]
    if json:
        plain = [{"title": title, **found.to_dict(top)} for title, found in result]
        _console.print_json({"query": qid, "explanations": plain})
    else:
        parts = [f"{printable(title)}\n{found.text(top)}" for title, found in result]
        typer.echo(f"query {printable(qid)}\n\n" + "\n\n".join(parts))


def _rows_of(data: Dataset, query: str) -> Dataset:
    for q, found in enumerate(data.queries.ids.tolist()):
        if str(found) == query:
            return data.take(data.queries.rows_of(q))
    some = ", ".join(printable(str(found)) for found in data.queries.ids[:5].tolist())
    raise ParameterError(f"the data has no query {query!r}", fix=f"Its queries start with {some}")


def _row_of(data: Dataset, doc: str) -> int:
    """Row of a document: by docid, else by its place among the query's rows."""
    if data.docid is not None:
        for i, found in enumerate(data.docid.tolist()):
            if str(found) == doc:
                return i
    if doc.isascii() and doc.isdigit() and 1 <= int(doc) <= data.n_rows:
        return int(doc) - 1
    raise ParameterError(
        f"the query has no document {doc!r}",
        fix=f"Pass a docid, or a place from 1 to {data.n_rows}",
    )


def _described(data: Dataset, i: int) -> str:
    docid = "" if data.docid is None else str(data.docid[i])
    return f"{docid or f'row {i + 1}'} (label {data.y[i]:g})"
