"""``rankine demo``: the main job end to end on a shop's search log that is made on the spot."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson, Seed
from rankine.cli.main import app

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rankine.data.dataset import Dataset
    from rankine.model import LinearModel

_EPILOG = """
[bold]Examples[/bold]

  rankine demo

  rankine demo --out shop --n-queries 5000 --seed 1
"""


@app.command(epilog=_EPILOG)
def demo(
    out: Annotated[
        str, typer.Option("--out", "-o", help="Folder for the files it makes.")
    ] = "demo-output",
    n_queries: Annotated[int, typer.Option(help="Number of search queries.")] = 1500,
    seed: Seed = 7,
    json: AsJson = False,
) -> None:
    """Make a shop-search log, train, evaluate, explain one ranking, save model and report."""
    result = run_demo(out, n_queries, seed)
    if json:
        plain = {
            "rows": result.train.n_rows + result.test.n_rows,
            "queries": result.train.n_queries + result.test.n_queries,
            "metrics": result.table,
            "files": result.files,
            "seconds": result.seconds,
            "digest": result.model.digest,
        }
        _console.print_json(plain)
    else:
        show_demo(result)


_METRICS = ("ndcg@10", "map", "mrr")
_TITLE = "A shop's search, ranked by what shoppers clicked and bought"
#: Steps of the training at which its objective is recorded, for the report.
_RECORDED = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)


@dataclass(frozen=True)
class DemoResult:
    """Everything the demo made."""

    train: Dataset
    test: Dataset
    model: LinearModel
    scores: NDArray[Any]
    table: dict[str, dict[str, float]]
    files: dict[str, str]
    seconds: dict[str, float]


def run_demo(folder: str, n_queries: int, seed: int) -> DemoResult:
    """Log -> split by query -> train -> evaluate against baselines -> files."""
    import numpy as np

    import rankine
    from rankine.logs.simulation import shop_log
    from rankine.metrics import evaluate_on, random_expectation
    from rankine.transforms.apply import score_dataset

    seconds: dict[str, float] = {}

    def lap(name: str, since: float) -> float:
        now = time.perf_counter()
        seconds[name] = round(now - since, 2)
        return now

    clock = time.perf_counter()
    log = shop_log(n_queries, random_state=seed)
    cut = int(0.8 * log.n_queries)
    train = log.take_queries(np.arange(cut))
    test = log.take_queries(np.arange(cut, log.n_queries))
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    files = {name: str(target / f"{name}.txt") for name in ("train", "test")}
    for name, part in (("train", train), ("test", test)):
        # Text holds labels, queries, features and product names; the log's other columns stay here.
        plain = replace(part, columns={}, position=None)
        plain.save(files[name])
    names = target / "features.txt"
    names.write_text("".join(f"{name}\n" for name in train.feature_names or ()), encoding="utf-8")
    files["features"] = str(names)
    clock = lap("log", clock)
    ranker = rankine.SPDRanker(
        scale="standard", l2=1e-3, random_state=seed, record_at=_RECORDED
    ).fit(train)
    clock = lap("training", clock)
    ranker.training_ |= {"fingerprint": train.fingerprint}
    model = ranker.to_model()
    files["model"] = str(target / "model.rankine")
    model.save(files["model"])
    scores = score_dataset(model, test)
    shown = -np.asarray(test.position, dtype=np.float64)
    table = {
        metric: {
            "model": evaluate_on(test, scores=scores, metric=metric),
            "as_shown": evaluate_on(test, scores=shown, metric=metric),
            "random": random_expectation(metric, test.y, test.queries),
        }
        for metric in _METRICS
    }
    clock = lap("evaluation", clock)
    files["report"] = str(target / "report.html")
    page = rankine.report(model, test, title=_TITLE, command=f"rankine demo --seed {seed}")
    page.save(files["report"])
    clock = lap("report", clock)
    tables = rankine.AdditiveRanker(smooth=300.0, pairs=1).fit(train)
    files["curves"] = str(target / "curves.html")
    rankine.report(tables, test, title="The same search by curves").save(files["curves"])
    lap("curves", clock)
    return DemoResult(train, test, model, scores, table, files, seconds)


def show_demo(result: DemoResult) -> None:
    """Tables and words."""
    from rich.table import Table

    rows = result.train.n_rows + result.test.n_rows
    queries = result.train.n_queries + result.test.n_queries
    _console.print_result(
        f"A shop's search log: {rows:,} impressions of {queries:,} queries, "
        f"{result.train.n_features} features; clicks count 1, purchases 2.\n"
        f"Trained on {result.train.n_queries:,} queries in {result.seconds['training']:.2f} s "
        f"(first run: compiling included); evaluated on {result.test.n_queries:,} others.\n"
    )
    table = Table("held-out queries", "model", "as shown by the shop", "random order", box=None)
    for metric, values in result.table.items():
        table.add_row(metric, *(f"{values[name]:.4f}" for name in ("model", "as_shown", "random")))
    _console.print_result(table)
    _show_query(result)
    _show_next(result)


def _show_query(result: DemoResult) -> None:
    """One held-out list, best first, and why the first stands above the second."""
    import numpy as np
    from rich.table import Table

    test = result.test
    bought = test.queries.gather(test.y >= 2).astype(int)
    per_query = np.add.reduceat(bought, test.queries.starts[:-1])
    chosen = int(np.argmax(per_query))
    rows = test.queries.rows_of(chosen)
    order = rows[np.argsort(-result.scores[rows], kind="stable")]
    assert test.docid is not None  # noqa: S101 - the log names its products
    assert test.position is not None  # noqa: S101 - and where they were shown
    words = ("", "clicked", "bought")
    table = Table("rank", "product", "score", "feedback", "was shown at", box=None)
    for rank, row in enumerate(order[:8].tolist(), 1):
        feedback = words[int(test.y[row])]
        table.add_row(
            str(rank),
            str(test.docid[row]),
            f"{result.scores[row]:+.3f}",
            feedback,
            str(test.position[row]),
        )
    text = test.columns["query_text"][rows[0]]
    _console.print_result(f"\nThe query {str(text)!r}, as the model ranks it:")
    _console.print_result(table)
    first, second = order[:2].tolist()
    pair = result.model.explain_pair(test.X[first], test.X[second])
    _console.print_result(f"\nWhy {test.docid[first]} stands above {test.docid[second]}:")
    _console.print_result(pair.text(limit=6))


def _show_next(result: DemoResult) -> None:
    files = result.files
    names = f"--feature-names {files['features']}"
    _console.print_result(
        "\nWritten: " + ", ".join(files.values()) + "\n\nTry next:\n"
        f"  rankine inspect {files['model']}\n"
        f"  rankine evaluate {files['model']} {files['test']} {names} --metric ndcg@5 "
        "--relative-to random\n"
        f"  rankine train {files['train']} {names} --ranker ranksvm "
        f"--valid {files['test']} --out {Path(files['model']).with_name('ranksvm.rankine')}\n"
        "  rankine --help\n\n"
        f"Curves of the columns and a map of two: {Path(files['curves']).resolve()}\n"
        f"The report, a page to look at: {Path(files['report']).resolve()}"
    )
