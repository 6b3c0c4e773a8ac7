"""``rankine tune``: a tuned ranker from one command."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, progress_bar, save_report
from rankine.cli._options import (
    AsJson,
    Missing,
    ReadingOptions,
    ReportFile,
    Seed,
    panel,
    parse_settings,
)
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.tuning.result import TuningResult


_search = panel("Search")


@dataclass(frozen=True)
class SearchOptions:
    """Where, how and within which limits to search."""

    folds: Annotated[int | None, _search(help="Folds by query (default 5).")] = None
    space: Annotated[
        list[str] | None, _search(help="Narrow the search: name=low..high[:log] or name=a,b,c.")
    ] = None
    set_: Annotated[list[str] | None, _search("--set", help="Fix a parameter: name=value.")] = None
    max_nonzero: Annotated[int | None, _search(help="Most non-zero weights.")] = None
    max_latency: Annotated[
        str | None, _search(help="Longest time to score an item, such as 9us.")
    ] = None
    acquisition: Annotated[str, _search(help="thompson, or ei.")] = "thompson"
    pruner: Annotated[
        str, _search(help="Who gives up trials that cannot win: gain, median, halving, or none.")
    ] = "gain"
    workers: Annotated[int, _search(help="Trials at the same time.")] = 1

    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``rankine.tune``."""
        from rankine.scoring.latency import parse_latency

        found = {name: value for name, value in vars(self).items() if name != "set_"}
        found["space"] = read_space(self.space or [])
        if self.max_latency is not None:
            found["max_latency"] = parse_latency(self.max_latency)
        return {**found, "parameters": parse_settings(self.set_ or [])}


def read_space(pairs: list[str]) -> dict[str, str]:
    """``["l2=1e-6..1e-2:log"]`` as a mapping."""
    space = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise ParameterError(
                f"--space {pair!r} is not name=range", fix="Write --space l2=1e-6..1e-2:log"
            )
        space[name.strip()] = text.strip()
    return space


_EPILOG = """
[bold]Examples[/bold]

  rankine tune train.txt --valid vali.txt --ranker ranksvm --metric ndcg@10 --out model.rankine

  rankine tune log.parquet --split time:0.8,0.1,0.1 --time-column day --columns day \\
      --ranker elastic --max-nonzero 500 --trials 50 --study study.db --out model.rankine

  rankine tune train.txt --ranker spd --folds 5 --space l2=1e-6..1e-2 --space scale=none,standard

  The same command again goes on where a study stopped; two at once share the work.
"""


@app.command(epilog=_EPILOG)
def tune(
    data: Annotated[list[str], typer.Argument(help="Training files or patterns.")],
    ranker: Annotated[str, typer.Option(help="A ranker (see rankine train), or auto.")] = "spd",
    valid: Annotated[str | None, typer.Option(help="Validation data; else folds.")] = None,
    metric: Annotated[str, typer.Option("--metric", "-m", help="What is optimised.")] = "ndcg@10",
    trials: Annotated[int, typer.Option(help="Trials of the study, in all.")] = 30,
    study: Annotated[
        str | None, typer.Option(help="SQLite file of the study; default: in memory.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Where to write the model.")
    ] = None,
    missing: Missing = "auto",
    seed: Seed = 0,
    plot: Annotated[
        str | None, typer.Option(help="Draw the metric against the trial (png, svg, pdf).")
    ] = None,
    report: ReportFile = None,
    *,
    search: SearchOptions,
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Find the parameters that rank held-out queries best, and train with them."""
    import rankine
    from rankine.rankers.registry import RANKERS, ranker_class
    from rankine.tuning import import_optuna

    import_optuna()
    check_output_paths(out=out, plot=plot, study=study, report=report)
    options = search.options()
    if missing != "auto":
        linear = [name for name in RANKERS if not ranker_class(name).takes_missing]
        names = [f"{name}.missing" for name in linear] if ranker == "auto" else ["missing"]
        options["parameters"] |= dict.fromkeys(names, missing)
    rows = reading.open(data)
    held = None if valid is None else reading.open_like(valid, rows)
    schema = None if rows.encoding is None else rows.encoding.schema
    with progress_bar("tuning") as move:

        def tell(done: int, total: int, best: float | None) -> None:
            if move is not None:
                move(done, total, "trials" if best is None else f"trials, best {best:.4f}")

        found: TuningResult = rankine.tune(
            rows,
            ranker=ranker,
            valid=held,
            metric=metric,
            trials=trials,
            study=study,
            split=reading.split,
            time_column=reading.time or (schema and schema.time),
            random_state=seed,
            progress=tell,
            **options,
        )
    if schema is None:
        found = replace(found, model=replace(found.model, base=reading.base))
    if out is not None:
        found.model.save(out)
    if plot is not None:
        rankine.plot.save_axes(rankine.plot.trials(found), plot)
    save_report(report, found)
    if json:
        _console.print_json({**found.to_dict(), "study": study, "model": out})
    else:
        show_result(found, out)


def show_result(found: TuningResult, out: str | None) -> None:
    """The trials as a table, then the winner."""
    from rich.table import Table

    names = list(dict.fromkeys(name for record in found.trace for name in record.parameters))
    table = Table(box=None, pad_edge=False)
    for title in ("trial", found.metric, "best", *names, "weights", "seconds", ""):
        table.add_column(title, justify="right" if title not in names else "left")
    for record in found.trace:
        remark = "" if record.state == "complete" else record.reason or record.state
        if not record.feasible:
            remark = "above a limit"
        table.add_row(
            str(record.number),
            _number(record.value),
            _number(record.best),
            *(_number(record.parameters.get(name)) for name in names),
            _number(record.weights),
            _number(record.seconds),
            remark,
        )
    _console.print_result(table)
    chosen = ", ".join(f"{name}={_number(value)}" for name, value in found.best_params.items())
    lines = [
        ("best", f"{found.metric} {found.best_value:.4f} on held-out queries"),
        ("parameters", f"{found.model.parameters.get('ranker')}: {chosen}"),
        ("weights", f"{found.model.nnz:,} of {found.model.n_features:,} are not zero"),
    ]
    if found.test is not None:
        lines.append((f"{found.metric} (test)", f"{found.test:.4f}"))
    if found.importances:
        shares = (f"{name} {share:.0%}" for name, share in found.importances.items())
        lines.append(("importance", ", ".join(shares)))
    if out is not None:
        lines.append(("model", f"{out}  ({found.model.digest[:12]})"))
    summary = Table(show_header=False, box=None, pad_edge=False)
    for name, value in lines:
        summary.add_row(name, value)
    _console.print_result("")
    _console.print_result(summary)


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
