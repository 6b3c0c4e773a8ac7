"""``rankine history``: history features as columns, and the state that they are computed from."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_tables
from rankine.cli._options import AsJson, Files
from rankine.cli._reading import Where, report_excluded
from rankine.cli.main import Commands, app, group_of
from rankine.core.atomic import atomic_file
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.history.state import HistoryState

history = Commands(help="Compute features from the history of a log.")
app.add_typer(history, name="history", rich_help_panel=group_of("history"))

_EPILOG = """
[bold]Examples[/bold]

  rankine history build log.parquet --schema shop.toml \\
      --out features.parquet --state state
"""
_APPLY_EPILOG = """
[bold]Examples[/bold]

  rankine history apply today.parquet --state state
"""
_SHOW_EPILOG = """
[bold]Examples[/bold]

  rankine history show --state state

  rankine history show --state state --by product_id=P1
"""
State = Annotated[str, typer.Option(help="Folder of the state of history features.", metavar="DIR")]


@history.command(epilog=_EPILOG)
def build(
    log: Files,
    schema: Annotated[str, typer.Option(help="TOML file that declares the features.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Write this file: .parquet or .arrow.")],
    state: Annotated[
        str | None,
        typer.Option(
            help="Folder of the state: the log continues it, and the state after the log is saved "
            "there.",
            metavar="DIR",
        ),
    ] = None,
    where: Where = None,
    json: AsJson = False,
) -> None:
    """Write the rows of a log with its history features as columns, for any other tool.

    The log must be in order of time. A schema that uses the new columns is written next to the
    file, with the suffix .toml.
    """
    from rankine.logs.build import build_history
    from rankine.logs.schema import read_schema

    check_output_paths(out=out)  # before a suffix is added to a name that is none
    schema_out = out.removesuffix(Path(out).suffix) + ".toml"
    is_same = schema_out == schema
    if not is_same and Path(schema_out).exists() and Path(schema).exists():
        is_same = Path(schema_out).samefile(schema)
    if is_same:
        raise ParameterError(
            f"the new schema would replace {schema}", parameter="out", fix="Choose another name"
        )
    declared = read_schema(schema)
    report = build_history(log, out, declared, state=state, where=where)
    report_excluded(report.read_counts)
    with atomic_file(schema_out) as file:
        file.write(declared.without_history().to_toml().encode())
    if json:
        counts = {"rows": report.rows, "lists": report.lists}
        _console.print_json(
            {"out": out, "schema": schema_out, **counts, "features": report.features}
        )
        return
    _console.print_status(
        f"{out}: {report.rows:,} rows of {report.lists:,} lists with {len(report.features)} "
        f"history features; {schema_out} is the schema"
    )
    _console.print_next_commands(
        [["rankine", "train", out, "--schema", schema_out, "--out", "model.rankine"]]
    )


@history.command(epilog=_APPLY_EPILOG)
def apply(log: Files, state: State, where: Where = None, json: AsJson = False) -> None:
    """Apply a new log, such as yesterday's, to a state.

    A log that was applied before is refused.
    """
    from rankine.logs.build import apply_log

    applied = apply_log(state, log, where=where)
    after = applied.state()
    report_excluded(applied.read_counts or {})
    if json:
        _console.print_json(_summary(after))
    else:
        _print_summary(after)


@history.command(epilog=_SHOW_EPILOG)
def show(
    state: State,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Show the features of this key, such as product_id=P1; repeat it for the other "
            "columns of a key."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show what the last snapshot of a state contains, or the features of one key."""
    from rankine.history.rows import format_time
    from rankine.history.state import load_state

    loaded = load_state(state)
    if not by:
        if json:
            _console.print_json(_summary(loaded))
        else:
            _print_summary(loaded)
        return
    values = loaded.read_key(_parse_key(by, loaded))
    overall = loaded.overall_rates(loaded.clock)
    time = format_time(loaded.clock)
    if json:
        features = {name: None if math.isnan(x) else x for name, x in values.items()}
        _console.print_json({"time": time, "features": features, "overall": overall})
        return
    rows = []
    for name, value in values.items():
        text = "missing" if math.isnan(value) else f"{value:.6g}"
        ratio = ""
        if overall.get(name):
            ratio = f"{value / overall[name]:.2f} times the overall rate"
        rows.append((name, text, ratio))
    _print_table(f"at {time or 'the beginning'}", ("feature", "value", ""), rows, ("",))


def _print_table(
    title: str, header: tuple[str, ...], rows: Sequence[Sequence[str]], text: Sequence[str] = ()
) -> None:
    from rankine.evaluation.tables import Table

    print_tables([Table(title, header, rows, further_text=text)])


def _parse_key(by: list[str], state: HistoryState) -> dict[str, str]:
    """Parse ``column=value`` options."""
    columns = {}
    for text in by:
        name, equals, value = text.partition("=")
        if not equals or name not in state.history.key_columns:
            raise ParameterError(
                f"{text!r} names no column of a key",
                parameter="by",
                fix=f"Write COLUMN=VALUE; the columns are {', '.join(state.history.key_columns)}",
            )
        columns[name] = value
    return columns


def _summary(state: HistoryState) -> dict[str, Any]:
    from rankine.history.rows import format_time

    return {
        "time": format_time(state.clock),
        "lists": state.counts.lists,
        "rows": state.counts.rows,
        "waiting_lists": state.waiting.n_lists,
        "bytes": state.n_bytes,
        "keys": state.n_keys,
    }


def _print_summary(state: HistoryState) -> None:
    from rankine.reporting.numbers import plural

    summary = _summary(state)
    keys = summary.pop("keys")
    rows = []
    for name, feature in zip(state.history.names, state.history.features, strict=True):
        formula = getattr(feature, feature.kind)
        kind = feature.kind if formula is True else f"{feature.kind} of {formula}"
        rows.append((name, kind, ", ".join(feature.by), f"{keys[name]:,}"))
    title = (
        f"{plural(summary['rows'], 'row')} of {plural(summary['lists'], 'list')}, the last one "
        f"read at {summary['time'] or 'no time yet'}; "
        f"{plural(summary['waiting_lists'], 'list')} not visible yet; {summary['bytes']:,} bytes"
    )
    _print_table(title, ("feature", "what", "by", "keys"), rows, ("what", "by"))
