"""Tuning for the command line: load once, search, save, report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rankine.cli import _console
from rankine.cli._output import require_folder

if TYPE_CHECKING:
    from rankine.tune.result import TuningResult

__all__ = ["show_result", "tune_files"]


def tune_files(
    paths: list[str],
    valid: str | None,
    options: dict[str, Any],
    *,
    out: str | None,
    plot: str | None,
    study: str | None,
    **search: Any,
) -> TuningResult:
    """Read the files once, search, write the model and the plot."""
    import rankine
    from rankine.plot import check_plot_file, save_axes
    from rankine.tune import import_optuna

    import_optuna()
    require_folder("--out", out)
    require_folder("--plot", plot)
    require_folder("--study", study)
    if plot is not None:
        check_plot_file(plot)
    data = rankine.load(paths, **options)
    held = None
    if valid is not None:
        held = rankine.load(valid, **{**options, "n_features": data.n_features})
    with _progress() as report:
        found: TuningResult = rankine.tune(
            data,
            valid=held,
            study=study,
            progress=report,
            **search,
        )
    model = replace(found.model, base=options.get("base", 1))
    found = replace(found, model=model)
    if out is not None:
        model.save(out)
    if plot is not None:
        save_axes(rankine.plot.trials(found), plot)
    return found


@contextmanager
def _progress() -> Iterator[Callable[[int, int, float | None], None] | None]:
    """A bar over trials on stderr when it is a terminal."""
    if not sys.stderr.isatty() or _console.verbosity() < 0:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("tuning"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} trials  {task.fields[shown]}"),
        TimeElapsedColumn(),
        console=_console.console(stderr=True),
        transient=True,
    )
    task = bar.add_task("tuning", total=None, shown="")

    def update(done: int, total: int, best: float | None) -> None:
        shown = "" if best is None else f"best {best:.4f}"
        bar.update(task, completed=done, total=total, shown=shown)

    with bar:
        yield update


def show_result(found: TuningResult, out: str | None) -> None:
    """The trials as a table, then the winner."""
    from rich.table import Table

    names = list(dict.fromkeys(name for record in found.trace for name in record.parameters))
    table = Table(box=None, pad_edge=False)
    for title in ("trial", found.metric, "best", *names, "weights", "seconds", ""):
        table.add_column(title, justify="right" if title not in names else "left")
    for record in found.trace:
        table.add_row(
            str(record.number),
            _number(record.value),
            _number(record.best),
            *(_number(record.parameters.get(name)) for name in names),
            _number(record.weights),
            _number(record.seconds),
            "" if record.state == "complete" and record.feasible else _remark(record),
        )
    _console.show(table)
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
    _console.show("")
    _console.show(summary)


def _remark(record: Any) -> str:
    return "above a limit" if not record.feasible else str(record.reason or record.state)


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
