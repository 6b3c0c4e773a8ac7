"""``rankine tune``: search for the best parameters of a ranker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import (
    check_output_paths,
    print_tables,
    print_values,
    print_without_weights,
    progress_bar,
    save_plot,
    save_report,
    set_interruption,
)
from rankine.cli._groups import option_panel
from rankine.cli._options import AsJson, Missing, ReportFile, Seed, parse_settings
from rankine.cli._reading import ReadingOptions, log_schema_of
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.evaluation.tables import Table
    from rankine.tuning.result import TuningResult

_search = option_panel("Search")
_EPILOG = """
[bold]Examples[/bold]

  rankine tune train.txt --valid vali.txt --ranker ranksvm --metric ndcg@10 \\
      --out model.rankine

  rankine tune log.parquet --split time:0.8,0.1,0.1 --time-column day \\
      --columns day --ranker elastic --max-nonzero 500 --trials 50 \\
      --study study.db --out model.rankine

  rankine tune train.txt --ranker spd --folds 5 --space l2=1e-6..1e-2 \\
      --space scale=none,standard

  The same command continues a study that was stopped; two commands at once share the work.
"""


@dataclass(frozen=True)
class SearchOptions:
    """Options of the search: parameters, order of trials and limits of models."""

    folds: Annotated[
        int | None,
        _search(help="Number of cross-validation folds if there is no --valid (default: 5)."),
    ] = None
    space: Annotated[
        list[str] | None,
        _search(
            help="Search a parameter in this range: name=low..high, name=low..high:log or "
            "name=a,b,c; repeatable."
        ),
    ] = None
    set_: Annotated[
        list[str] | None, _search("--set", help="Fix a parameter, name=value; repeatable.")
    ] = None
    max_nonzero: Annotated[
        int | None, _search(help="Largest number of non-zero weights of a model.")
    ] = None
    max_latency: Annotated[
        str | None, _search(help="Longest time to score an item, with a unit: 9us.")
    ] = None
    acquisition: Annotated[
        str, _search(help="Choose the next trial by thompson or ei (expected improvement).")
    ] = "thompson"
    pruner: Annotated[
        str, _search(help="Stop unpromising trials by this rule: gain, median, halving or none.")
    ] = "gain"
    workers: Annotated[int, _search(help="Number of trials to run in parallel.")] = 1

    def options(self) -> dict[str, Any]:
        """Return keyword arguments of ``rankine.tune``."""
        from rankine.scoring.latency import parse_latency

        options = {name: value for name, value in vars(self).items() if name != "set_"}
        options["space"] = read_space(self.space or [])
        if self.max_latency is not None:
            options["max_latency"] = parse_latency(self.max_latency)
        options["parameters"] = parse_settings(self.set_ or [])
        return options


def read_space(pairs: list[str]) -> dict[str, str]:
    """Parse texts such as ``l2=1e-6..1e-2:log`` to ranges by parameter."""
    space = {}
    for pair in pairs:
        name, equals, values = pair.partition("=")
        if not equals or not name.strip() or not values.strip():
            raise ParameterError(
                f"{pair!r} is not name=range",
                parameter="space",
                fix="Write --space l2=1e-6..1e-2:log",
            )
        space[name.strip()] = values.strip()
    return space


@app.command(epilog=_EPILOG)
def tune(
    data: Annotated[list[str], typer.Argument(help="Training files or patterns.")],
    ranker: Annotated[
        str, typer.Option(help="Tune this ranker: {rankers}; or auto to choose one.")
    ] = "spd",
    valid: Annotated[
        str | None, typer.Option(help="Validation file (default: cross-validation).")
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", "-m", help="Optimise this metric: {metrics}.")
    ] = "ndcg@10",
    trials: Annotated[
        int, typer.Option(help="Total number of trials, including earlier ones of the same study.")
    ] = 30,
    study: Annotated[
        str | None, typer.Option(help="SQLite file of the study (default: in memory).")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Write the model to this file.")
    ] = None,
    missing: Missing = "auto",
    seed: Seed = 0,
    plot: Annotated[
        str | None,
        typer.Option(help="Draw the metric of each trial to this file: .png, .svg or .pdf."),
    ] = None,
    report: ReportFile = None,
    *,
    search: SearchOptions,
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Search for the parameters that rank held-out queries best, and train a model with them."""
    import rankine
    from rankine.metrics import metric_columns
    from rankine.tuning import import_optuna

    import_optuna()  # fails early, with the name of the extra
    check_output_paths(out=out, plot=plot, study=study, report=report)
    options = search.options()
    if missing != "auto":
        options["parameters"] |= dict.fromkeys(_missing_parameters(ranker), missing)
    # Held-out rows are read like the training rows, so that features mean the same.
    columns = metric_columns([metric])
    rows = reading.open(data, columns=columns)
    held_out = None if valid is None else reading.open_like(valid, rows, columns=columns)
    schema = log_schema_of(rows)
    # Ctrl-C may come at any time, so the text that it prints is set before the search starts.
    resume_hint = ""
    if study is not None:
        resume_hint = f"; the same command continues the study {study}"
    set_interruption(f"no trial had finished{resume_hint}")
    with progress_bar("tuning") as update_bar:

        def on_trial(done: int, total: int, best: float | None) -> None:
            if update_bar is None:
                return
            text = "trials" if best is None else f"trials, best {best:.4f}"
            update_bar(done, total, text)

        result: TuningResult = rankine.tune(
            rows,
            ranker=ranker,
            valid=held_out,
            metric=metric,
            trials=trials,
            study=study,
            split=reading.split,
            time_column=reading.time or (None if schema is None else schema.time),
            random_state=seed,
            progress=on_trial,
            **options,
        )
    # Trials number features from 0; the saved model must read text files as the command did.
    if schema is None:
        result = replace(result, model=replace(result.model, base=reading.base))
    if out is not None:
        result.model.save(out)
    save_plot(plot, "trials", result)
    save_report(report, result)
    if json:
        _console.print_json({**result.to_dict(), "study": study, "model": out})
    else:
        print_result(result, out)
    # The best model so far is saved above, before the command ends as interrupted.
    if result.interrupted:
        result_text = "the best setting so far is shown above; name --out to keep its model"
        if out is not None:
            result_text = f"the best model so far is in {out}"
        set_interruption(
            f"{len(result.trace)} of {trials} trials had finished, {result_text}{resume_hint}"
        )
        raise KeyboardInterrupt


def _missing_parameters(ranker: str) -> list[str]:
    """Return the names of the parameters that ``--missing`` sets."""
    from rankine.rankers.registry import RANKERS, ranker_class

    # With --ranker auto a parameter belongs to one of the rankers.
    if ranker != "auto":
        return ["missing"]
    return [f"{name}.missing" for name in RANKERS if not ranker_class(name).takes_missing]


def print_result(result: TuningResult, out: str | None) -> None:
    """Print the trials as a table, then the best one."""
    best_parameters = ", ".join(
        f"{name}={_format(value)}" for name, value in result.best_params.items()
    )
    rows = [
        ("best", f"{result.metric} {result.best_value:.4f} on held-out queries"),
        ("parameters", f"{result.model.parameters.get('ranker')}: {best_parameters}"),
        ("weights", f"{result.model.nnz:,} of {result.model.n_features:,} are not zero"),
    ]
    if result.test is not None:
        rows.append((f"{result.metric} (test)", f"{result.test:.4f}"))
    if result.importances:
        shares = (f"{name} {share:.0%}" for name, share in result.importances.items())
        rows.append(("importance", ", ".join(shares)))
    if out is not None:
        rows.append(("model", f"{out}  ({result.model.digest[:12]})"))
    print_without_weights(result.model.nnz, result.metric)
    print_tables([_trials_table(result)])
    _console.print_result("")
    print_values(rows)


def _trials_table(result: TuningResult) -> Table:
    """Return one row per trial."""
    from rankine.evaluation.tables import Table

    rows = []
    for trial in result.trace:
        # A failed trial says why; a stopped one only that it was stopped.
        remark = "" if trial.state == "complete" else trial.reason or trial.state
        if not trial.feasible:
            remark = "above a limit"
        parameters = [f"{name}={_format(value)}" for name, value in trial.parameters.items()]
        rows.append(
            (
                str(trial.number),
                _format(trial.value),
                _format(trial.best),
                _format(trial.weights),
                _format(trial.seconds),
                " ".join(parameters),
                remark,
            )
        )
    header = ("trial", result.metric, "best", "weights", "seconds", "parameters", "remark")
    return Table(
        "",
        header,
        rows,
        left=0,
        further_text=("parameters", "remark"),
        optional=("best", "weights", "seconds"),
    )


def _format(value: Any) -> str:
    """Return a cell: four digits of a number, and - for None."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
