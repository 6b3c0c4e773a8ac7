"""``rankine interleave``: test which model users prefer, by mixing their lists (interleaving)."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_tables, save_report
from rankine.cli._groups import option_names, reject_options, require_one_format
from rankine.cli._options import AsJson, AsLatex, AsMarkdown, ReportFile, Seed
from rankine.cli._reading import ModelReadingOptions, SessionColumnOptions
from rankine.cli.main import Commands, app, group_of
from rankine.core.errors import ParameterError

interleave = Commands(
    help="Test which model users prefer, by mixing the lists of models (interleaving)."
)
app.add_typer(interleave, name="interleave", rich_help_panel=group_of("interleave"))

_PLAN_EPILOG = """
[bold]Examples[/bold]

  rankine interleave plan old.rankine new.rankine lists.parquet --length 10 \\
      --out shared.parquet

  rankine interleave plan --detect 0.52 --decided 0.4 --power 0.9
"""
_ANALYSE_EPILOG = """
[bold]Examples[/bold]

  rankine interleave analyse log.parquet --query session_id --team team \\
      --label clicked

  rankine interleave analyse log.parquet --query session_id --search search \\
      --credit last --json
"""


@interleave.command(epilog=_PLAN_EPILOG)
def plan(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL... DATA", help="Two or more models, then the lists to rank."),
    ] = None,
    length: Annotated[int, typer.Option(help="Number of items shown per list.")] = 10,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Write the mixed lists to this Parquet file."),
    ] = None,
    detect: Annotated[
        float,
        typer.Option(
            help="Smallest share of wins, among lists without a tie, that the test must detect."
        ),
    ] = 0.55,
    decided: Annotated[float, typer.Option(help="Expected share of lists without a tie.")] = 1.0,
    power: Annotated[float, typer.Option(help="Statistical power of the test.")] = 0.8,
    level: Annotated[float, typer.Option(help="Significance level of the test.")] = 0.05,
    seed: Seed = 0,
    *,
    reading: ModelReadingOptions,
    json: AsJson = False,
) -> None:
    """Mix the lists of models (team draft), and compute how many sessions the test needs."""
    from rankine.evaluation.interleave import sessions_needed

    result: dict[str, Any] = {
        "sessions_needed": sessions_needed(detect, decided=decided, level=level, chance=power),
        "detect": detect,
        "decided": decided,
        "power": power,
        "level": level,
    }
    if inputs or out:
        result |= _draft(inputs or [], out, length, seed, reading)
    else:
        reject_options(
            ("length", "seed", *option_names(ModelReadingOptions)), "needs models and lists to rank"
        )
    if json:
        _console.print_json(result)
        return
    if "lists" in result:
        _console.print_result(f"{result['lists']:,} lists of {', '.join(result['teams'])}: {out}")
    _console.print_result(
        f"{result['sessions_needed']:,} sessions detect a preference of {detect:g} with a power "
        f"of {power:.0%} at the significance level {level:g}, if {decided:.0%} have a winner."
    )


def _draft(
    inputs: list[str],
    out: str | None,
    length: int,
    seed: int,
    reading: ModelReadingOptions,
) -> dict[str, Any]:
    """Write the mixed lists; the column ``team`` names the model that picked each item."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    import rankine
    from rankine.core.atomic import atomic_file
    from rankine.evaluation.interleave import interleave
    from rankine.transforms.apply import score_dataset

    if len(inputs) < 3 or out is None:
        raise ParameterError(
            "two models, lists to rank and --out are needed",
            fix="Write: rankine interleave plan A.rankine B.rankine DATA --out shared.parquet",
        )
    check_output_paths(out=out)
    # As in rankine compare: models, then the data.
    *paths, data_path = inputs
    if len(set(paths)) < len(paths):
        raise ParameterError(
            "a model is named twice", parameter="inputs", fix="Name each model once"
        )
    models = [rankine.LinearModel.load(path) for path in paths]
    data = reading.open_for(data_path, models)
    # All models score the same rows, and a draft picks from their orders.
    scores = np.stack([score_dataset(model, data) for model in models])
    rows, position, team = interleave(scores, data.queries, length, random_state=seed)
    # Without docids, items are named by their rows in the data.
    items = np.arange(data.n_rows) if data.item_ids is None else np.asarray(data.item_ids)
    table = pa.table(
        {
            "session": np.asarray(data.qid)[rows],
            "item": items[rows],
            "position": position,
            "team": pa.DictionaryArray.from_arrays(team.astype(np.int32), paths),
        }
    )
    with atomic_file(out) as target:
        pq.write_table(table, target)
    return {"out": out, "lists": data.n_queries, "rows": len(rows), "teams": paths}


@interleave.command(epilog=_ANALYSE_EPILOG)
def analyse(
    log: Annotated[
        list[str], typer.Argument(help="Parquet or Arrow files with one row per shown item.")
    ],
    team: Annotated[
        str, typer.Option(help="Column of the team (model) that picked the item.")
    ] = "team",
    credit: Annotated[
        str,
        typer.Option(
            help="How clicks count for a team: clicks (their number), or any, first or last "
            "click of a list."
        ),
    ] = "clicks",
    confidence: Annotated[
        float, typer.Option(help="Confidence level of the intervals and the verdict.")
    ] = 0.95,
    n_resamples: Annotated[int, typer.Option(help="Number of bootstrap samples.")] = 10_000,
    seed: Seed = 0,
    report: ReportFile = None,
    *,
    columns: SessionColumnOptions,
    json: AsJson = False,
    latex: AsLatex = False,
    markdown: AsMarkdown = False,
) -> None:
    """Test which model users prefer: wins, ties, losses and p-values."""
    from rankine.evaluation.interleave import analyse_interleaving

    require_one_format(json=json, latex=latex, markdown=markdown)
    check_output_paths(report=report)
    result = analyse_interleaving(
        log,
        team=team,
        **columns.columns(),
        credit=credit,
        confidence=confidence,
        n_resamples=n_resamples,
        random_state=seed,
    )
    save_report(report, result)
    if json:
        _console.print_json(result.to_dict())
    else:
        print_tables(result.tables(), latex=latex, markdown=markdown)
