"""``rankine convert``: from one format to another."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import (
    AsJson,
    LogOptions,
    ReadingOptions,
    option_names,
    panel,
    reject_options,
    split_list,
)
from rankine.cli.main import app

if TYPE_CHECKING:
    from rankine.data.save import ConversionReport

_EPILOG = """
[bold]Examples[/bold]

  rankine convert train.txt train.parquet --feature-names names.txt

  rankine convert 'log-*.parquet' log.txt.gz --query session_id --label clicked

  rankine convert train.parquet train.npz --layout sparse --dtype float32

  rankine convert --features log.jsonl --judgments judgments.csv train.parquet

  zcat big.gz | rankine convert - big.parquet --n-features 136 --layout columns
"""


_writing = panel("Writing")


@dataclass(frozen=True)
class WritingOptions:
    """How the output is written."""

    to: Annotated[
        str | None, _writing(help="letor, parquet, arrow or npz; default: by suffix.")
    ] = None
    layout: Annotated[
        str | None,
        _writing(
            help="sparse (indices and values) or columns (one per feature); default: as read."
        ),
    ] = None
    compression: Annotated[
        str | None,
        _writing(
            help="Parquet: zstd (default), snappy, gzip, brotli, lz4, none; "
            "Arrow: lz4, zstd, none; npz: none, deflate; text: by suffix."
        ),
    ] = None
    out_base: Annotated[int | None, _writing(help="First feature index of the output, 1 or 0.")] = (
        None
    )
    names_out: Annotated[
        str | None, _writing(help="Also write the feature names, one a line (text has none).")
    ] = None

    def options(self) -> dict[str, Any]:
        """Keyword arguments of the writer."""
        given = {"layout": self.layout, "compression": self.compression, "base": self.out_base}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class ConvertOptions(ReadingOptions):
    """Data of which some columns are features."""

    features: Annotated[
        str | None,
        typer.Option(
            help="Feature columns of Parquet and Arrow, comma-separated; default: all others. "
            "With --judgments: logs of a search engine (JSON, JSON lines).",
            rich_help_panel="Reading",
        ),
    ] = None
    judgments: Annotated[
        str | None,
        typer.Option(
            help="TREC qrels, or CSV with query, document and grade, of a search engine's log.",
            rich_help_panel="Reading",
        ),
    ] = None


@app.command(epilog=_EPILOG)
def convert(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="IN... OUT", help="Files, patterns or - for stdin; then a file, or - for text."
        ),
    ],
    *,
    writing: WritingOptions,
    reading: ConvertOptions,
    json: AsJson = False,
) -> None:
    """Convert files between LETOR text, Parquet and Arrow (or to npz), in bounded memory."""
    from rankine.core.errors import ParameterError
    from rankine.data.save import convert as convert_files

    *source, target = files
    if json and target == "-":
        raise ParameterError("--json and the data both want stdout", fix="Name an output file")
    reject_options(("pairs",), "makes lists of two to learn from")
    reject_options(("split",), "cuts data to learn from")
    if not reading.raw:
        reject_options(
            option_names(LogOptions), "belongs to a raw log, and no column of one is named"
        )
    if reading.judgments is not None:
        reject_options(
            option_names(ReadingOptions),
            "says how files of rows are read, not a search engine's log",
        )
        _join(source, target, reading, writing, json=json)
        return
    if not source:
        raise ParameterError("an output without an input", fix="Write: rankine convert IN... OUT")
    columns = None if reading.features is None else split_list(reading.features)
    started = time.perf_counter()
    options = {} if reading.raw else reading.options(features=columns)
    report = convert_files(
        reading.open(source, stream=True) if reading.raw else source,
        target,
        to=writing.to,
        names_out=writing.names_out,
        write=writing.options(),
        **options,
    )
    _tell(report, target, time.perf_counter() - started, json=json)


def _join(
    source: list[str], target: str, reading: ConvertOptions, writing: WritingOptions, *, json: bool
) -> None:
    """Logged features beside judgements, and what did not match."""
    from rankine.core.errors import ParameterError
    from rankine.evaluation.engine_logs import join_logged

    if source or reading.features is None:
        raise ParameterError(
            "--judgments joins the logs that --features names",
            fix="Write: rankine convert --features LOG --judgments J OUT",
        )
    logs = list(split_list(reading.features))
    joined = join_logged(logs, reading.judgments)
    options = {} if writing.to is None else {"format": writing.to}
    joined.data.save(target, **options, **writing.options())
    if writing.names_out is not None:
        from pathlib import Path

        names = joined.data.feature_names or ()
        Path(writing.names_out).write_text("\n".join(names) + "\n", encoding="utf-8")
    counts = {
        "rows": joined.data.n_rows,
        "queries": joined.data.n_queries,
        "features": joined.data.n_features,
        "logged_without_judgment": len(joined.unjudged),
        "judged_without_log": len(joined.unlogged),
    }
    if json:
        lists = {"unjudged": joined.unjudged, "unlogged": joined.unlogged}
        _console.print_json({"out": target, **counts, **lists})
        return
    _console.print_status(
        f"{target}: {counts['rows']:,} rows x {counts['features']:,} features of "
        f"{counts['queries']:,} queries"
    )
    for what, pairs in (("no judgement", joined.unjudged), ("no log", joined.unlogged)):
        if pairs:
            shown = ", ".join(f"{query}/{document}" for query, document in pairs[:10])
            more = ", ..." if len(pairs) > 10 else ""
            _console.print_status(f"{len(pairs):,} documents have {what}: {shown}{more}")


def _tell(report: ConversionReport, target: str, seconds: float, *, json: bool) -> None:
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
    extra += f", {report.missing:,} missing values" if report.missing else ""
    _console.print_status(
        f"{target}: {report.rows:,} rows x {report.features:,} features of {report.queries:,} "
        f"queries in {seconds:.1f} s{extra}"
    )
    if report.names_lost:
        _console.print_status("text holds no feature names: keep them with --names-out FILE")
