"""``rankine clicks``: estimate examination probabilities of positions from click logs.

This module also defines the options of ``rankine evaluate --counterfactual``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_tables, save_plot
from rankine.cli._groups import option_panel
from rankine.cli._options import AsJson, Seed, split_list
from rankine.cli._reading import ClickColumnOptions, ModelReadingOptions
from rankine.cli.main import Commands, app, group_of

if TYPE_CHECKING:
    from rankine.evaluation.tables import Table
    from rankine.logs.propensity import Propensity

clicks = Commands(help="Estimate the position bias of a click log.")
app.add_typer(clicks, name="clicks", rich_help_panel=group_of("clicks"))

_EPILOG = """
[bold]Examples[/bold]

  rankine clicks propensity log.parquet --query session_id --item item \\
      --search search

  rankine clicks propensity random.parquet --query session_id \\
      --method randomised --out p.json

  rankine clicks propensity log.parquet --query session_id --method em \\
      --features price,rating

  rankine train log.parquet --query session_id --label clicked \\
      --propensity p.json
"""


@clicks.command(epilog=_EPILOG)
def propensity(
    log: Annotated[list[str], typer.Argument(help="Parquet or Arrow files.")],
    item: Annotated[str | None, typer.Option(help="Column of the displayed item.")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Estimate by this method: harvest (default with --item), randomised or em "
            "(regression-EM)."
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(help="Feature columns of the relevance model of em, comma-separated."),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            help="Also estimate separately for each value of this column, such as a device."
        ),
    ] = None,
    max_position: Annotated[int, typer.Option(help="Treat later positions like this one.")] = 50,
    min_rows: Annotated[
        int, typer.Option(help="Fail if a position has fewer rows than this.")
    ] = 100,
    n_resamples: Annotated[
        int, typer.Option(help="Number of bootstrap samples; 0 computes no intervals.")
    ] = 200,
    seed: Seed = 0,
    plot: Annotated[
        str | None, typer.Option(help="Draw the estimates to this file: .png, .svg or .pdf.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Write a JSON file for rankine train --propensity."),
    ] = None,
    *,
    columns: ClickColumnOptions,
    json: AsJson = False,
) -> None:
    """Estimate the examination probability of each position, relative to the first."""
    from rankine.logs.propensity import estimate_propensity

    check_output_paths(out=out, plot=plot)
    estimate = estimate_propensity(
        log,
        method=method,
        **columns.columns(item=item),
        features=split_list(features),
        context=context,
        max_position=max_position,
        min_rows=min_rows,
        n_resamples=n_resamples,
        random_state=seed,
    )
    save_plot(plot, "propensity", estimate)
    if out is not None:
        estimate.save(out)
    for path in (plot, out):
        if path is not None:
            _console.print_status(f"wrote {path}")
    if json:
        _console.print_json(estimate.to_dict())
    else:
        print_tables(_tables(estimate, ""))


def _tables(estimate: Propensity, name: str) -> list[Table]:
    """Return a table with one row per position, and one such table per context."""
    from rankine.evaluation.tables import Table

    rows = [
        (
            str(k + 1),
            f"{estimate.values[k]:.4f}",
            f"[{estimate.low[k]:.4f}, {estimate.high[k]:.4f}]",
            f"{estimate.rows[k]:,}",
            f"{estimate.clicks[k]:,}",
        )
        for k in range(len(estimate.values))
    ]
    title = (
        f"{name}{estimate.method}: {estimate.pairs:,} groups, {estimate.n_units:,} units "
        f"({estimate.unit})"
    )
    interval = f"{estimate.confidence:.0%} interval"
    tables = [Table(title, ("position", "examined", interval, "rows", "clicks"), rows)]
    # Each context has an estimate of its own, in a table of its own.
    for value, part in estimate.contexts.items():
        tables += _tables(part, f"{value}, ")
    return tables


_option = option_panel("Counterfactual evaluation on a click log")


@dataclass(frozen=True)
class CounterfactualOptions:
    """Options of ``rankine evaluate --counterfactual``."""

    counterfactual: Annotated[
        bool,
        _option(
            "--counterfactual",
            help="Estimate from the click log of another ranker how many clicks the model would "
            "get.",
        ),
    ] = False
    click_model: Annotated[
        str, _option(help="Assume this click model: position_based or independent.")
    ] = "position_based"
    propensity: Annotated[
        str | None, _option(help="File written by rankine clicks propensity --out.")
    ] = None
    logged: Annotated[
        str | None,
        _option(help="Column of the probabilities with which the logging ranker showed the items."),
    ] = None
    position: Annotated[
        str | None,
        _option(help="Column of displayed positions (default: the model's, or position)."),
    ] = None
    item: Annotated[
        str | None, _option(help="Column of the displayed item (default: the model's).")
    ] = None
    search: Annotated[
        str | None, _option(help="Column of the search text (default: the model's).")
    ] = None
    top: Annotated[
        int | None, _option(help="Count only the first N positions (default: all).", metavar="N")
    ] = None
    max_weight: Annotated[float | None, _option(help="Clip importance weights to this value.")] = (
        None
    )
    min_effective: Annotated[
        float, _option(help="Fail if the effective number of rows is smaller than this.")
    ] = 100.0
    min_overlap: Annotated[
        float, _option(help="Fail if the two rankers overlap less than this (0 to 1).")
    ] = 0.5

    def evaluate(
        self, path: str, files: list[str], reading: ModelReadingOptions, *, json: bool
    ) -> None:
        """Score the log with a model, estimate the clicks it would get, and print the estimate."""
        import rankine
        from rankine.evaluation.counterfactual import counterfactual
        from rankine.logs.propensity import Propensity
        from rankine.transforms.apply import score_dataset

        model = rankine.LinearModel.load(path)
        schema = reading.log_schema(model)
        item = self.item or getattr(schema, "item", None)
        search = self.search or getattr(schema, "search", None)
        position = self.position or getattr(schema, "position", None) or "position"
        names = [name for name in (item, search, self.logged) if name is not None]
        names = list(dict.fromkeys(names))  # one column may have two uses
        options: dict[str, Any] = {"position": position}
        # The log has further columns, which must not be read as features.
        if model.feature_names is not None:
            options["features"] = model.feature_names
        data = reading.open(files, model=model, columns=names, **options)
        columns: dict[str, Any] = {"qid": data.qid, "y": data.y, "position": data.position}
        columns |= {name: data.columns[name] for name in names}
        propensity: Any = () if self.propensity is None else Propensity.load(self.propensity)
        estimate = counterfactual(
            columns,
            score_dataset(model, data),
            model=self.click_model,
            propensity=propensity,
            logged=self.logged,
            k=self.top,
            query="qid",
            label="y",
            item=item,
            search=search,
            max_weight=self.max_weight,
            min_effective=self.min_effective,
            min_overlap=self.min_overlap,
        )
        if json:
            _console.print_json({"model": path, "digest": model.digest, **estimate.to_dict()})
        else:
            print_tables(estimate.tables())
