"""``rankine clicks``: what a click log says about its users, and about other rankers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_tables
from rankine.cli._options import AsJson, ClickColumnOptions, Seed, panel, split_list
from rankine.cli.main import Commands, app

if TYPE_CHECKING:
    from rankine.cli._options import ModelReadingOptions
    from rankine.evaluation.tables import Table
    from rankine.logs.propensity import Propensity

clicks = Commands(help="Position bias of a click log.", no_args_is_help=True)
app.add_typer(clicks, name="clicks")

_EPILOG = """
[bold]Examples[/bold]

  rankine clicks propensity log.parquet --query session_id --item item --search search

  rankine clicks propensity random.parquet --query session_id --method randomised --out looks.json

  rankine clicks propensity log.parquet --query session_id --method em --features price,rating

  rankine train log.parquet --query session_id --label clicked --propensity looks.json
"""


@clicks.command(epilog=_EPILOG)
def propensity(
    log: Annotated[list[str], typer.Argument(help="Parquet or Arrow files.")],
    item: Annotated[str | None, typer.Option(help="Column of the item shown.")] = None,
    method: Annotated[
        str | None,
        typer.Option(help="harvest (default with --item), randomised, or em (regression-EM)."),
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="Columns of em's relevance model, comma-separated.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="Column (a device): an estimate for each value too.")
    ] = None,
    max_position: Annotated[int, typer.Option(help="Positions beyond count as this one.")] = 50,
    min_rows: Annotated[int, typer.Option(help="Rows that a position needs.")] = 100,
    n_resamples: Annotated[int, typer.Option(help="Bootstrap samples; 0 gives no interval.")] = 200,
    seed: Seed = 0,
    plot: Annotated[str | None, typer.Option(help="Picture: .png, .svg or .pdf.")] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="JSON file for rankine train --propensity.")
    ] = None,
    *,
    where: ClickColumnOptions,
    json: AsJson = False,
) -> None:
    """Chance of being looked at by position, relative to the first, with intervals."""
    from rankine.logs.propensity import estimate_propensity

    check_output_paths(out=out, plot=plot)
    found = estimate_propensity(
        log,
        method=method,
        **where.columns(item=item),
        features=split_list(features),
        context=context,
        max_position=max_position,
        min_rows=min_rows,
        n_resamples=n_resamples,
        random_state=seed,
    )
    if plot is not None:
        from rankine import plot as drawing

        drawing.save_axes(drawing.propensity(found), plot)
        _console.print_status(f"wrote {plot}")
    if out is not None:
        found.save(out)
        _console.print_status(f"wrote {out}")
    if json:
        _console.print_json(found.to_dict())
    else:
        print_tables(_tables(found, ""))


def _tables(found: Propensity, name: str) -> list[Table]:
    """One row per position; one table per context."""
    from rankine.evaluation.tables import Table

    columns = (found.values, found.low, found.high, found.rows, found.clicks)
    rows = [
        (str(k), f"{value:.4f}", f"[{low:.4f}, {high:.4f}]", f"{shown:,}", f"{clicked:,}")
        for k, (value, low, high, shown, clicked) in enumerate(zip(*columns, strict=True), 1)
    ]
    title = f"{name}{found.method}: {found.pairs:,} groups, {found.n_units:,} units ({found.unit})"
    header = ("position", "looked at", f"{found.confidence:.0%} interval", "rows", "clicks")
    parts = [_tables(part, f"{value}, ") for value, part in found.contexts.items()]
    return [Table(title, header, rows), *(table for part in parts for table in part)]


_option = panel("Judging on a click log")


@dataclass(frozen=True)
class CounterfactualOptions:
    """Options of ``rankine evaluate --counterfactual``."""

    counterfactual: Annotated[
        bool, _option("--counterfactual", help="Value of the model on another ranker's click log.")
    ] = False
    click_model: Annotated[str, _option(help="position_based or independent.")] = "position_based"
    propensity: Annotated[str | None, _option(help="File of rankine clicks propensity --out.")] = (
        None
    )
    logged: Annotated[str | None, _option(help="Column of the old ranker's probabilities.")] = None
    position: Annotated[str, _option(help="Column of positions.")] = "position"
    item: Annotated[str | None, _option(help="Column of the item shown.")] = None
    search: Annotated[str | None, _option(help="Column of what was searched for.")] = None
    top: Annotated[int | None, _option(help="Count the first positions only; default: all.")] = None
    max_weight: Annotated[float | None, _option(help="Cut larger weights to it.")] = None
    min_effective: Annotated[float, _option(help="Refuse fewer effective rows.")] = 100.0
    min_overlap: Annotated[float, _option(help="Refuse less overlap.")] = 0.5

    def judge(
        self, path: str, files: list[str], reading: ModelReadingOptions, *, json: bool
    ) -> None:
        """Score the log with a model, estimate its value and show it."""
        import rankine
        from rankine.evaluation.counterfactual import counterfactual
        from rankine.logs.propensity import Propensity
        from rankine.transforms.apply import score_dataset

        model = rankine.LinearModel.load(path)
        names = (self.item, self.search, self.logged)
        wanted = list(dict.fromkeys(name for name in names if name is not None))
        more: dict[str, Any] = {"position": self.position}
        if model.feature_names is not None:
            more["features"] = model.feature_names
        data = reading.open(files, model=model, columns=wanted, **more)
        columns: dict[str, Any] = {"qid": data.qid, "y": data.y, "position": data.position}
        found = counterfactual(
            {**columns, **{name: data.columns[name] for name in wanted}},
            score_dataset(model, data),
            model=self.click_model,
            propensity=() if self.propensity is None else Propensity.load(self.propensity),
            logged=self.logged,
            k=self.top,
            query="qid",
            label="y",
            item=self.item,
            search=self.search,
            max_weight=self.max_weight,
            min_effective=self.min_effective,
            min_overlap=self.min_overlap,
        )
        if json:
            _console.print_json({"model": path, "digest": model.digest, **found.to_dict()})
        else:
            print_tables(found.tables())
