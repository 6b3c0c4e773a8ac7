"""``rankine demo``: train, evaluate and explain a model on a simulated shop-search log."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import print_next_commands, print_tables
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


_METRICS = ("ndcg@10", "map", "mrr")
_TITLE = "A shop's search, ranked by what shoppers clicked and bought"
#: Goals of the front in the report: relevance, and the money that sales earn.
_GOALS = ("clicked", "purchased*margin")
#: Share of the queries used for training.
_TRAIN_SHARE = 0.8
#: Training steps at which the objective is recorded, for the report.
_RECORDED_STEPS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
#: A history needs some lists to learn from.
_MIN_MARKET = 100
#: Names of the labels 0, 1 and 2.
_FEEDBACK = ("", "clicked", "bought")


@app.command(epilog=_EPILOG)
def demo(
    out: Annotated[
        str, typer.Option("--out", "-o", help="Write the files to this folder.")
    ] = "demo-output",
    n_queries: Annotated[int, typer.Option(help="Number of search queries.")] = 1500,
    seed: Seed = 7,
    json: AsJson = False,
) -> None:
    """Try rankine on a simulated shop log: train, evaluate, explain one ranking, write a report."""
    result = run_demo(out, n_queries, seed)
    if json:
        summary = {
            "rows": result.train.n_rows + result.test.n_rows,
            "queries": result.train.n_queries + result.test.n_queries,
            "metrics": result.metrics,
            "files": result.files,
            "seconds": result.seconds,
            "digest": result.model.digest,
        }
        _console.print_json(summary)
    else:
        print_demo(result)


@dataclass(frozen=True)
class DemoResult:
    """Data, model, metrics and files of a demo."""

    train: Dataset
    test: Dataset
    model: LinearModel
    scores: NDArray[Any]
    metrics: dict[str, dict[str, float]]
    files: dict[str, str]
    seconds: dict[str, float]


class Stopwatch:
    """Measure the seconds of successive steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        """Record the time since the last step."""
        now = time.perf_counter()
        self.seconds[step] = round(now - self._last, 2)
        self._last = now


def run_demo(folder: str, n_queries: int, seed: int) -> DemoResult:
    """Simulate a log, split it by query, train, evaluate against baselines and write files."""
    import numpy as np

    import rankine
    from rankine.logs.simulation import shop_log
    from rankine.transforms.apply import score_dataset

    stopwatch = Stopwatch()
    log = shop_log(n_queries, random_state=seed)
    n_train = int(_TRAIN_SHARE * log.n_queries)
    train = log.take_queries(np.arange(n_train))
    test = log.take_queries(np.arange(n_train, log.n_queries))
    target = Path(folder)
    files = _write_data(target, train, test)
    stopwatch.lap("log")
    ranker = rankine.SPDRanker(
        scale="standard", l2=1e-3, random_state=seed, record_at=_RECORDED_STEPS
    ).fit(train)
    stopwatch.lap("training")
    ranker.training_ |= {"fingerprint": train.fingerprint}
    model = ranker.to_model()
    files["model"] = str(target / "model.rankine")
    model.save(files["model"])
    scores = score_dataset(model, test)
    metrics = _evaluate(test, scores)
    stopwatch.lap("evaluation")
    front = rankine.pareto(
        rankine.LeastSquaresRanker(),
        train,
        _GOALS,
        test=test,
        n_points=11,
        maximise=_GOALS[1],
        floors={_GOALS[0]: 0.98},
        random_state=seed,
    )
    stopwatch.lap("front")
    files["report"] = str(target / "report.html")
    command = f"rankine demo --seed {seed}"
    page = rankine.report(model, test, title=_TITLE, command=command, front=front)
    page.save(files["report"])
    stopwatch.lap("report")
    files["market"], files["curves"] = str(target / "market.parquet"), str(target / "curves.html")
    _report_history(files, max(n_queries, _MIN_MARKET), seed)
    stopwatch.lap("curves")
    return DemoResult(train, test, model, scores, metrics, files, stopwatch.seconds)


def _report_history(files: dict[str, str], n_lists: int, seed: int) -> None:
    """Write the log of a market that changes, and a report with curves of its history."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import rankine
    from rankine.logs.simulation import market_log

    pq.write_table(pa.table(market_log(n_lists, random_state=seed)), files["market"])
    history = {
        "item_rate": {"rate": "clicked", "by": "product_id", "half_life": "7d"},
        "user_brand_rate": {"rate": "clicked", "by": ["user_id", "brand"], "half_life": "60d"},
    }
    log = rankine.logs.scan(
        files["market"],
        query="session",
        label="clicked",
        numeric=["price", "rating"],
        time="ts",
        history=history,
    )
    parts = log.split("time:0.8,0.2")
    additive = rankine.AdditiveRanker(smooth=300.0, pairs=1)
    additive.fit(parts["train"], intervals=True)
    page = rankine.report(additive, parts["valid"].load(), title="A market that changes, by curves")
    page.save(files["curves"])


def _write_data(folder: Path, train: Dataset, test: Dataset) -> dict[str, str]:
    """Write both parts as LETOR text and the feature names; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, part in (("train", train), ("test", test)):
        files[name] = str(folder / f"{name}.txt")
        # Text files cannot store further columns and positions.
        replace(part, columns={}, position=None).save(files[name])
    files["features"] = str(folder / "features.txt")
    lines = [f"{name}\n" for name in train.feature_names or ()]
    Path(files["features"]).write_text("".join(lines), encoding="utf-8")
    return files


def _evaluate(test: Dataset, scores: NDArray[Any]) -> dict[str, dict[str, float]]:
    """Return the metrics of the model, of the displayed order and of a random order."""
    import numpy as np

    from rankine.metrics import evaluate_on, random_expectation

    displayed_order = -np.asarray(test.position, dtype=np.float64)
    return {
        metric: {
            "model": evaluate_on(test, scores=scores, metric=metric),
            "as_shown": evaluate_on(test, scores=displayed_order, metric=metric),
            "random": random_expectation(metric, test.y, test.queries),
        }
        for metric in _METRICS
    }


def print_demo(result: DemoResult) -> None:
    """Print sizes, metrics, one ranking and commands to try next."""
    from rankine.evaluation.tables import Table

    n_rows = result.train.n_rows + result.test.n_rows
    n_queries = result.train.n_queries + result.test.n_queries
    _console.print_result(
        f"Simulated search log of a shop: {n_rows:,} products shown for {n_queries:,} queries, "
        f"{result.train.n_features} features. Labels: 2 bought, 1 clicked, 0 neither.\n"
        f"Trained on {result.train.n_queries:,} queries in {result.seconds['training']:.2f} s "
        f"(the first run includes compiling); evaluated on {result.test.n_queries:,} others.\n"
    )
    rows = [
        (metric, *(f"{values[name]:.4f}" for name in ("model", "as_shown", "random")))
        for metric, values in result.metrics.items()
    ]
    header = ("held-out queries", "model", "as shown by the shop", "random order")
    print_tables([Table("", header, rows)])
    _print_ranking(result)
    _print_next_commands(result)


def _print_ranking(result: DemoResult) -> None:
    """Print one held-out list, best first, and why the first item ranks above the second."""
    import numpy as np

    from rankine.evaluation.tables import Table

    test = result.test
    assert test.docid is not None  # noqa: S101 - the simulated log names its products
    assert test.position is not None  # noqa: S101 - and where they were shown
    bought = test.queries.gather(test.y >= 2).astype(int)
    n_bought = np.add.reduceat(bought, test.queries.starts[:-1])
    rows = test.queries.rows_of(int(np.argmax(n_bought)))
    order = rows[np.argsort(-result.scores[rows], kind="stable")]
    ranking = [
        (
            str(rank),
            str(test.docid[row]),
            f"{result.scores[row]:+.3f}",
            _FEEDBACK[int(test.y[row])],
            str(test.position[row]),
        )
        for rank, row in enumerate(order[:8].tolist(), 1)
    ]
    header = ("rank", "product", "score", "feedback", "was shown at")
    query_text = test.columns["query_text"][rows[0]]
    _console.print_result(f"\nThe query {str(query_text)!r}, as the model ranks it:")
    print_tables([Table("", header, ranking, left=2, further_text=("feedback",))])
    first, second = order[:2].tolist()
    explanation = result.model.explain_pair(test.X[first], test.X[second])
    _console.print_result(f"\nWhy {test.docid[first]} ranks above {test.docid[second]}:")
    _console.print_result(explanation.text(limit=6, width=_console.terminal_width()))


def _print_next_commands(result: DemoResult) -> None:
    """Print the files and commands that use them."""
    files = result.files
    names = ["--feature-names", files["features"]]
    _console.print_result("\nWritten: " + ", ".join(files.values()))
    model, second_model = files["model"], Path(files["model"]).with_name("ranksvm.rankine")
    evaluation = ["--metric", "ndcg@5", "--relative-to", "random"]
    training = ["--ranker", "ranksvm", "--valid", files["test"], "--out", str(second_model)]
    print_next_commands(
        [
            ["rankine", "inspect", model],
            ["rankine", "evaluate", model, files["test"], *names, *evaluation],
            ["rankine", "train", files["train"], *names, *training],
            ["rankine", "--help"],
        ]
    )
    _console.print_result(
        "\nOpen in a browser:\n"
        f"  {Path(files['report']).resolve()} (report on the model)\n"
        f"  {Path(files['curves']).resolve()} (an additive model of two history features)"
    )
