"""``rankine convert``: convert data files from one format to another."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, check_stdout_unused
from rankine.cli._groups import option_names, option_panel, reject_options
from rankine.cli._options import AsJson, split_list
from rankine.cli._reading import LogOptions, ReadingOptions, report_excluded
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.data.save import ConversionReport

#: Number of unmatched documents that are printed.
_MAX_EXAMPLES = 10
_EPILOG = """
[bold]Examples[/bold]

  rankine convert train.txt train.parquet --feature-names names.txt

  rankine convert 'log-*.parquet' log.txt.gz --query session_id \\
      --label clicked

  rankine convert train.parquet train.npz --layout sparse --dtype float32

  rankine convert --features log.jsonl --judgments judgments.csv train.parquet

  rankine convert --from ubi queries.jsonl events.jsonl log.parquet

  zcat big.gz | rankine convert - big.parquet --n-features 136 \\
      --layout columns
"""


_writing = option_panel("Writing")


@dataclass(frozen=True)
class WritingOptions:
    """Options of the output file."""

    to: Annotated[
        str | None,
        _writing(help="Write this format: letor, parquet, arrow or npz (default: by suffix)."),
    ] = None
    layout: Annotated[
        str | None,
        _writing(
            help="Write features as sparse (indices and values) or columns, one per feature "
            "(default: as read)."
        ),
    ] = None
    compression: Annotated[
        str | None,
        _writing(
            help="Compress Parquet by zstd (default), snappy, gzip, brotli, lz4 or none; Arrow by "
            "lz4, zstd or none; npz by none or deflate; text is compressed by suffix."
        ),
    ] = None
    out_base: Annotated[
        int | None, _writing(help="Index of the first feature in the output, 1 or 0.")
    ] = None
    names_out: Annotated[
        str | None,
        _writing(help="Also write the feature names to this file, one per line (text has none)."),
    ] = None

    def options(self) -> dict[str, Any]:
        """Return keyword arguments of the writer."""
        options = {"layout": self.layout, "compression": self.compression, "base": self.out_base}
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True)
class ConvertOptions(ReadingOptions):
    """Options for data to convert."""

    features: Annotated[
        str | None,
        typer.Option(
            help="Feature columns of Parquet and Arrow, comma-separated (default: all others). "
            "With --judgments: feature logs of a search engine (JSON, JSON lines).",
            rich_help_panel="Reading",
        ),
    ] = None
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SYSTEM",
            help="Join events of another system into a raw log of shown items with their "
            "outcomes, in Parquet: ubi (OpenSearch queries and events) or metarank.",
            rich_help_panel="Reading",
        ),
    ] = None
    judgments: Annotated[
        str | None,
        typer.Option(
            help="TREC qrels, or CSV of query, document and grade, to join with feature logs.",
            rich_help_panel="Reading",
        ),
    ] = None


@app.command(epilog=_EPILOG)
def convert(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="IN... OUT",
            help="Input files, patterns or - for stdin; then the output file, or - for stdout.",
        ),
    ],
    *,
    writing: WritingOptions,
    reading: ConvertOptions,
    json: AsJson = False,
) -> None:
    """Convert files between LETOR text, Parquet and Arrow, or to npz, in bounded memory."""
    from rankine.data.save import convert as convert_files

    # As with cp: all files but the last are read.
    *sources, target = files
    # The counts of --json and the converted rows must not mix on stdout.
    check_stdout_unused(target, json=json)
    check_output_paths(files=target)
    reject_options(("pairs", "split"), "applies to training data only")
    if not reading.raw:
        reject_options(
            option_names(LogOptions), "applies to a raw log, and no column of a log is named"
        )
    if reading.from_ is not None:
        names = [*option_names(ReadingOptions, WritingOptions), "features", "judgments"]
        reject_options(names, "cannot be combined with --from")
        _import_events(reading.from_, sources, target, json=json)
        return
    if reading.judgments is not None:
        reject_options(option_names(ReadingOptions), "cannot be combined with --judgments")
        _join_logs(sources, target, reading, writing, json=json)
        return
    # A single file could be meant as either.
    if not sources:
        raise ParameterError("the input is missing", fix="Write: rankine convert IN... OUT")
    started = time.perf_counter()
    source: Any = sources
    options: dict[str, Any] = {}
    if reading.raw:
        source = reading.open(sources, stream=True)
    else:
        columns = None if reading.features is None else split_list(reading.features)
        options = reading.options(features=columns)
    # Block by block, so that files larger than memory can be converted.
    report = convert_files(
        source,
        target,
        to=writing.to,
        names_out=writing.names_out,
        write=writing.options(),
        **options,
    )
    if not reading.raw:
        report_excluded(report.read_counts)
    _print_report(report, target, time.perf_counter() - started, json=json)


def _join_logs(
    sources: list[str],
    target: str,
    reading: ConvertOptions,
    writing: WritingOptions,
    *,
    json: bool,
) -> None:
    """Join logged features with judgements, and print what did not match."""
    from rankine.core.atomic import atomic_file
    from rankine.evaluation.engine_logs import join_logged

    if sources or reading.features is None:
        raise ParameterError(
            "needs feature logs, named by --features",
            parameter="judgments",
            fix="Write: rankine convert --features LOG --judgments J OUT",
        )
    joined = join_logged(list(split_list(reading.features)), reading.judgments)
    options = writing.options()
    if writing.to is not None:
        options["format"] = writing.to
    joined.data.save(target, **options)
    if writing.names_out is not None:
        # Engines log features by name, which text files cannot hold.
        names = joined.data.feature_names or ()
        with atomic_file(writing.names_out) as file:
            file.write("".join(f"{name}\n" for name in names).encode())
    counts = {
        "rows": joined.data.n_rows,
        "queries": joined.data.n_queries,
        "features": joined.data.n_features,
        "logged_without_judgment": len(joined.unjudged),
        "judged_without_log": len(joined.unlogged),
    }
    if json:
        unmatched = {"unjudged": joined.unjudged, "unlogged": joined.unlogged}
        _console.print_json({"out": target, **counts, **unmatched})
        return
    _console.print_status(
        f"{target}: {counts['rows']:,} rows x {counts['features']:,} features of "
        f"{counts['queries']:,} queries"
    )
    _print_unmatched("no judgement", joined.unjudged)
    _print_unmatched("no log", joined.unlogged)


def _import_events(system: str, sources: list[str], target: str, *, json: bool) -> None:
    """Join events of another system, write them as a log, and print what was found."""
    import pyarrow.parquet as pq

    from rankine.core.atomic import atomic_file
    from rankine.logs.imports import IMPORTERS

    if system not in IMPORTERS:
        raise ParameterError(
            f"{system!r} is not a choice",
            parameter="from_",
            fix=f"Choose {' or '.join(IMPORTERS)}",
        )
    if not sources or not target.endswith(".parquet"):
        raise ParameterError(
            "needs files with events, and a Parquet file to write",
            parameter="from_",
            fix=f"Write: rankine convert --from {system} IN... OUT.parquet",
        )
    # Everything is joined in memory: an outcome may come long after its list.
    log = IMPORTERS[system](sources)
    with atomic_file(target) as file:
        pq.write_table(log.table, file, compression="zstd")
    counts = {
        "rows": log.table.num_rows,
        "lists": log.n_lists,
        "outcomes": dict(log.outcomes),
        "unmatched_outcomes": log.unmatched,
        "other_events": log.other,
    }
    if json:
        _console.print_json({"out": target, **counts})
        return
    outcomes = ", ".join(f"{count:,} {name}" for name, count in log.outcomes.items())
    _console.print_status(
        f"{target}: {counts['rows']:,} rows of {log.n_lists:,} lists; {outcomes or 'no outcome'}"
    )
    if log.unmatched:
        _console.print_status(f"{log.unmatched:,} outcomes have no shown item")
    if log.other:
        _console.print_status(f"{log.other:,} events are no outcome of a shown list")
    _console.print_status(f"next: rankine inspect {target} --schema")


def _print_unmatched(lack: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Print the number of documents that lack their counterpart, and the first of them."""
    if not pairs:
        return
    examples = ", ".join(f"{query}/{document}" for query, document in pairs[:_MAX_EXAMPLES])
    if len(pairs) > _MAX_EXAMPLES:
        examples += ", ..."
    _console.print_status(f"{len(pairs):,} documents have {lack}: {examples}")


def _print_report(report: ConversionReport, target: str, seconds: float, *, json: bool) -> None:
    """Print what was converted."""
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
    text = (
        f"{target}: {report.rows:,} rows x {report.features:,} features of {report.queries:,} "
        f"queries in {seconds:.1f} s"
    )
    if report.skipped:
        text += f", {report.skipped:,} bad rows skipped"
    if report.missing:
        text += f", {report.missing:,} missing values"
    _console.print_status(text)
    if report.names_lost:
        _console.print_status("text files have no feature names: save them with --names-out FILE")
