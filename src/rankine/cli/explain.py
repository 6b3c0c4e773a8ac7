"""``rankine explain``: why documents of a query stand where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson, ModelFile, ModelReading
from rankine.cli.main import app

if TYPE_CHECKING:
    from rankine.data import Dataset
    from rankine.scoring import Scorer

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
    k: Annotated[int, typer.Option("-k", help="How many of the best documents to explain.")] = 3,
    top: Annotated[int, typer.Option(help="How many features to show.")] = 10,
    json: AsJson = False,
    *,
    reading: ModelReading,
) -> None:
    """Explain the best documents of a query, or why document A stands above B; exact."""
    import rankine
    from rankine.transforms.apply import fit_columns

    fitted = rankine.LinearModel.load(model)
    read = reading.open(data, model=fitted, progress=False)
    rows = fit_columns(fitted, _rows_of(read, qid))
    scorer = rankine.Scorer(fitted)
    result = _pair(scorer, rows, docs) if docs else _best(scorer, rows, k)
    if json:
        _console.print_json(_plain(result, qid, top))
    else:
        typer.echo(_text(result, qid, top))


def _rows_of(data: Dataset, query: str) -> Dataset:
    from rankine.core.errors import ParameterError
    from rankine.core.safe_text import printable

    for q, found in enumerate(data.queries.ids.tolist()):
        if str(found) == query:
            return data.take(data.queries.rows_of(q))
    some = ", ".join(printable(str(found)) for found in data.queries.ids[:5].tolist())
    raise ParameterError(f"the data has no query {query!r}", fix=f"Its queries start with {some}")


def _row_of(data: Dataset, doc: str) -> int:
    """Row of a document: by docid, else by its place among the query's rows."""
    from rankine.core.errors import ParameterError

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


def _name(data: Dataset, i: int) -> str:
    named = data.docid is not None and str(data.docid[i])
    return str(data.docid[i]) if named and data.docid is not None else f"row {i + 1}"


def _pair(scorer: Scorer, data: Dataset, docs: tuple[str, str]) -> list[tuple[str, Any]]:
    a, b = (_row_of(data, doc) for doc in docs)
    title = (
        f"a = {_name(data, a)} (label {data.y[a]:g}), b = {_name(data, b)} (label {data.y[b]:g})"
    )
    return [(title, scorer.explain_pair(data.X, a, b))]


def _best(scorer: Scorer, data: Dataset, k: int) -> list[tuple[str, Any]]:
    order = scorer.rank(data.X, k).indices.tolist()
    return [
        (
            f"{place}. {_name(data, i)} (label {data.y[i]:g})",
            scorer.explain(data.X, i),
        )
        for place, i in enumerate(order, 1)
    ]


def _plain(result: list[tuple[str, Any]], query: str, top: int) -> dict[str, Any]:
    return {
        "query": query,
        "explanations": [{"title": title, **found.to_dict(top)} for title, found in result],
    }


def _text(result: list[tuple[str, Any]], query: str, top: int) -> str:
    from rankine.core.safe_text import printable

    parts = [f"{printable(title)}\n{found.text(top)}" for title, found in result]
    return f"query {printable(query)}\n\n" + "\n\n".join(parts)
