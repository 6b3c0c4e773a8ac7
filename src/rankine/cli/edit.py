"""``rankine edit``: fix entries of a model's curves and solve for all others again."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_next_commands, print_values
from rankine.cli._continue import open_like_training, ranker_of_model
from rankine.cli._groups import reject_options
from rankine.cli._options import AsJson, Files, ModelFile, ValidFile
from rankine.cli._reading import ModelReadingOptions
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.core.edits import Edit
    from rankine.model import LinearModel

_EPILOG = """
[bold]Examples[/bold]

  rankine edit model.rankine train.parquet --valid valid.parquet

  rankine edit model.rankine train.parquet --fixed edits.toml --out edited.rankine

  rankine edit model.rankine log.parquet --split time:0.8,0.2 --fixed edits.toml \\
      --by Anna --out edited.rankine
"""


@app.command(epilog=_EPILOG)
def edit(
    model: ModelFile,
    log: Files,
    fixed: Annotated[
        str | None,
        typer.Option(
            help="Fix the entries that this TOML file lists "
            "(default: open a page on which curves can be dragged).",
            metavar="FILE",
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Write the edited model to this file.")
    ] = None,
    valid: ValidFile = None,
    by: Annotated[str | None, typer.Option(help="Record who fixes the entries.")] = None,
    note: Annotated[str | None, typer.Option(help="Record why.")] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page (0: any free port).")
    ] = 0,
    *,
    reading: ModelReadingOptions,
    json: AsJson = False,
) -> None:
    """Fix entries of an additive model's curves at given values and solve for all others again.

    LOG is the log that the model was trained on, or a newer one. Starts from the model, keeps
    its cuts, pairs and strengths, and records what was fixed and by how much the objective and the
    metric on held-out lists changed. Nothing is saved without --out. Without --fixed a page on
    this machine shows the curves; it saves to the file that you name there.
    """
    import msgspec

    from rankine.core.edits import check_edit, read_edit
    from rankine.model import LinearModel
    from rankine.transforms.log_columns import columns_of

    check_output_paths(out=out)
    start = LinearModel.load(model)
    if not hasattr(ranker_of_model(start), "edit"):
        raise ParameterError(
            f"the model was trained by {start.parameters.get('ranker')} and has no curves",
            parameter="model",
            fix="Train with --ranker additive",
        )
    if fixed is None:
        reject_options(("by", "note", "json"), "applies to --fixed")
        _serve_page(start, log, valid, reading, out, port)
        return
    reject_options(("port",), "cannot be combined with --fixed")
    request = read_edit(fixed)
    given = check_edit(request.fixed, by, note)
    request = msgspec.structs.replace(
        request, by=given.by or request.by, note=given.note or request.note
    )
    edited, record = _edit(start, request, log, valid, reading)
    result = {"model": model, "digest": edited.digest, "out": out, **record}
    if out is not None:
        edited.save(out)
    if json:
        _console.print_json(result)
        return
    print_values(_summary_rows(record))
    if out is None:
        _console.print_status("nothing was saved: name a file with --out")
        return
    _console.print_status(f"wrote {out}, digest {edited.digest[:12]}")
    held_out = [valid] if valid is not None else log
    if reading.split is not None:
        held_out = [*log, "--split", reading.split]
    held_out += reading.repeated_words(is_log=columns_of(start) is not None)
    print_next_commands(
        [["rankine", "inspect", out], ["rankine", "compare", model, out, *held_out]]
    )


def _edit(
    start: LinearModel,
    request: Edit,
    log: list[str],
    valid: str | None,
    reading: ModelReadingOptions,
) -> tuple[LinearModel, dict[str, Any]]:
    """Return the edited model, and what the edit changed."""
    train, eval_set = _read(start, log, valid, reading)
    ranker = ranker_of_model(start)
    with _console.training_progress("editing") as callbacks:
        ranker.edit(
            request.fixed,
            train,
            eval_set=eval_set,
            coef_init=start,
            callbacks=callbacks,
            by=request.by,
            note=request.note,
        )
    model: LinearModel = replace(ranker.to_model(), base=start.base)
    return model, ranker.edits_[-1]


def _read(
    start: LinearModel, log: list[str], valid: str | None, reading: ModelReadingOptions
) -> tuple[Any, Any]:
    """Return the rows to learn from, and held-out rows or None."""
    from rankine.metrics import parse_metric

    columns = parse_metric(start.metric or "ndcg@10").columns
    data = open_like_training(log, start, reading, columns)
    train, *held_out = reading.parts_with(data, {"valid": valid}).values()
    return train, _loaded(held_out[-1]) if held_out else None


def _serve_page(
    start: LinearModel,
    log: list[str],
    valid: str | None,
    reading: ModelReadingOptions,
    out: str | None,
    port: int,
) -> None:
    """Serve the page on which curves are dragged, until Ctrl-C."""
    from functools import partial

    from rankine.cli._edit_server import EditServer
    from rankine.reporting.editor import EditSession

    train, held_out = _read(start, log, valid, reading)
    session = EditSession(start, partial(ranker_of_model, start), _loaded(train), held_out, out)
    with EditServer(session, port) as server:
        _console.print_result(f"Open {server.url}")
        sys.stdout.flush()
        _console.print_status("Ctrl-C ends it; only what the page has saved is kept.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            _console.print_status("stopped")


def _loaded(data: Any) -> Any:
    from rankine.data.dataset import Dataset

    return data if isinstance(data, Dataset) else data.load()


def _summary_rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what an edit changed as names and values."""
    change = record["objective_after"] - record["objective_before"]
    rows = [
        ("entries", f"{len(record['fixed'])}"),
        ("objective", f"{record['objective_before']:.6g}, now {record['objective_after']:.6g}"),
        ("change", f"{change:+.3g}, certified to {record['gap']:.2g}"),
    ]
    if "metric" in record:
        before, after = record["metric_before"], record["metric_after"]
        rows.append((record["metric"], f"{before:.4f}, now {after:.4f} ({after - before:+.4f})"))
    return rows
