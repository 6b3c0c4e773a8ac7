"""``rankine convert``: from one format to another."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console, _data_options
from rankine.cli.app import app

if TYPE_CHECKING:
    from rankine.data.convert import Converted

_EPILOG = """
[bold]Examples[/bold]

  rankine convert train.txt train.parquet --feature-names names.txt

  rankine convert 'log-*.parquet' log.txt.gz --query session_id --label clicked

  rankine convert train.parquet train.npz --layout sparse --dtype float32

  zcat big.gz | rankine convert - big.parquet --n-features 136 --layout columns
"""


def _writing(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Writing", **settings)


_To = Annotated[
    str | None, _writing("--to", help="letor, parquet, arrow or npz; default: by suffix.")
]
_Layout = Annotated[
    str | None,
    _writing(
        "--layout",
        help="sparse (indices and values) or columns (one per feature); default: as read.",
    ),
]
_Compression = Annotated[
    str | None,
    _writing(
        "--compression",
        help="Parquet: zstd (default), snappy, gzip, brotli, lz4, none; Arrow: lz4, zstd, none; "
        "npz: none, deflate; text: by suffix.",
    ),
]
_OutBase = Annotated[
    int | None, _writing("--out-base", help="First feature index of the output, 1 or 0.")
]
_NamesOut = Annotated[
    str | None,
    _writing("--names-out", help="Also write the feature names, one a line (text has none)."),
]
_Features = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="Feature columns of Parquet and Arrow, comma-separated; default: all others.",
        rich_help_panel="Reading",
    ),
]


@app.command(epilog=_EPILOG)
def convert(
    source: Annotated[
        list[str], typer.Argument(metavar="IN...", help="Files, patterns, or - for stdin.")
    ],
    target: Annotated[str, typer.Argument(metavar="OUT", help="File, or - for text on stdout.")],
    to: _To = None,
    layout: _Layout = None,
    compression: _Compression = None,
    out_base: _OutBase = None,
    names_out: _NamesOut = None,
    format: _data_options.Format = None,  # noqa: A002 - the option's name
    n_features: _data_options.NFeatures = None,
    base: _data_options.Base = 1,
    qid_type: _data_options.QidType = "int",
    missing: _data_options.Missing = "error",
    on_bad_row: _data_options.OnBadRow = "error",
    feature_names: _data_options.FeatureNames = None,
    dtype: _data_options.Dtype = None,
    label: _data_options.Label = "label",
    query: _data_options.Query = "qid",
    columns: _data_options.Columns = None,
    features: _Features = None,
    group: _data_options.Group = None,
    single_query: _data_options.SingleQuery = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Convert files between LETOR text, Parquet, Arrow and npz, in bounded memory."""
    from rankine.core.errors import ParameterError
    from rankine.data.convert import convert as convert_files

    if json and target == "-":
        raise ParameterError("--json and the data both want stdout", fix="Name an output file")
    write = {"layout": layout, "compression": compression, "base": out_base}
    reading = _data_options.read_options(
        format=format,
        n_features=n_features,
        base=base,
        qid_type=qid_type,
        missing=missing,
        on_bad_row=on_bad_row,
        feature_names=feature_names,
        dtype=dtype,
        label=label,
        query=query,
        columns=columns,
        features=None if features is None else features.split(","),
        group=group,
        single_query=single_query,
        progress=_console.verbosity() >= 0,
    )
    started = time.perf_counter()
    report = convert_files(
        source,
        target,
        to=to,
        names_out=names_out,
        write={name: value for name, value in write.items() if value is not None},
        **reading,
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
