"""``rankine convert``: from one format to another."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson, Reading, split_list, spread
from rankine.cli.main import app

if TYPE_CHECKING:
    from rankine.data.save import Converted

_EPILOG = """
[bold]Examples[/bold]

  rankine convert train.txt train.parquet --feature-names names.txt

  rankine convert 'log-*.parquet' log.txt.gz --query session_id --label clicked

  rankine convert train.parquet train.npz --layout sparse --dtype float32

  zcat big.gz | rankine convert - big.parquet --n-features 136 --layout columns
"""


def _writing(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Writing", **settings)


@dataclass(frozen=True)
class Writing:
    """How the output is written."""

    to: Annotated[
        str | None, _writing("--to", help="letor, parquet, arrow or npz; default: by suffix.")
    ] = None
    layout: Annotated[
        str | None,
        _writing(
            "--layout",
            help="sparse (indices and values) or columns (one per feature); default: as read.",
        ),
    ] = None
    compression: Annotated[
        str | None,
        _writing(
            "--compression",
            help="Parquet: zstd (default), snappy, gzip, brotli, lz4, none; "
            "Arrow: lz4, zstd, none; npz: none, deflate; text: by suffix.",
        ),
    ] = None
    out_base: Annotated[
        int | None, _writing("--out-base", help="First feature index of the output, 1 or 0.")
    ] = None
    names_out: Annotated[
        str | None,
        _writing("--names-out", help="Also write the feature names, one a line (text has none)."),
    ] = None

    def options(self) -> dict[str, Any]:
        """Keyword arguments of the writer."""
        given = {"layout": self.layout, "compression": self.compression, "base": self.out_base}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class ConvertReading(Reading):
    """Data of which some columns are features."""

    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            help="Feature columns of Parquet and Arrow, comma-separated; default: all others.",
            rich_help_panel="Reading",
        ),
    ] = None


@app.command(epilog=_EPILOG)
@spread
def convert(
    source: Annotated[
        list[str], typer.Argument(metavar="IN...", help="Files, patterns, or - for stdin.")
    ],
    target: Annotated[str, typer.Argument(metavar="OUT", help="File, or - for text on stdout.")],
    *,
    writing: Writing,
    reading: ConvertReading,
    json: AsJson = False,
) -> None:
    """Convert files between LETOR text, Parquet, Arrow and npz, in bounded memory."""
    from rankine.core.errors import ParameterError
    from rankine.data.save import convert as convert_files

    if json and target == "-":
        raise ParameterError("--json and the data both want stdout", fix="Name an output file")
    columns = None if reading.features is None else split_list(reading.features)
    started = time.perf_counter()
    report = convert_files(
        source,
        target,
        to=writing.to,
        names_out=writing.names_out,
        write=writing.options(),
        **reading.options(features=columns),
    )
    _tell(report, target, time.perf_counter() - started, json=json)


def _tell(report: Converted, target: str, seconds: float, *, json: bool) -> None:
    """One JSON object on stdout, or a sentence on stderr."""
    if json:
        counts = {
            "rows": report.rows,
            "queries": report.queries,
            "features": report.features,
            "skipped_rows": report.skipped,
            "missing_values": report.missing,
        }
        _console.print_json({"out": target, **counts, "seconds": round(seconds, 3)})
        return
    extra = f", {report.skipped:,} bad rows skipped" if report.skipped else ""
    extra += f", {report.missing:,} missing values read as 0" if report.missing else ""
    _console.say(
        f"{target}: {report.rows:,} rows x {report.features:,} features of {report.queries:,} "
        f"queries in {seconds:.1f} s{extra}"
    )
    if report.names_lost:
        _console.say("text holds no feature names: keep them with --names-out FILE")
