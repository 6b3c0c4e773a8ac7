"""``rankine inspect``: show what a file or folder holds: a model, a log, lists, a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import print_next_commands, print_tables, print_values, shell_text
from rankine.cli._groups import reject_options
from rankine.cli._options import AsJson, Topic
from rankine.cli._reading import Where, report_excluded
from rankine.cli.main import app
from rankine.core.safe_text import printable
from rankine.core.stores import is_file, open_binary, read_bytes
from rankine.core.text_table import wrap_text

if TYPE_CHECKING:
    from rankine.data.overview import ColumnOverview, Overview
    from rankine.model import LinearModel, ModelBundle

#: Start of the header of a model file. Eight bytes with its length come first.
_MODEL_HEADER = b'{"__metadata__":{"digest"'
#: Labels that are listed; a column with more values is no grade.
_MAX_LABELS = 12
#: Files of a folder for which commands are printed.
_MAX_FILES = 5
_EPILOG = """
[bold]Examples[/bold]

  rankine inspect model.rankine

  rankine inspect model.rankine --json | jq .top_weights

  rankine inspect model.rankine --intervals --confidence 0.9

  rankine inspect topics.rankine --topic earn

  rankine inspect sofia.model --save model.rankine

  rankine inspect log.parquet

  rankine inspect log.parquet --schema > shop.toml

  rankine inspect MQ2008
"""


@app.command(epilog=_EPILOG)
def inspect(
    file: Annotated[
        str,
        typer.Argument(
            help="Model, log, file of lists, TREC run or judgements, or a folder of such files. "
            "Also a model of sofia-ml or SVMrank."
        ),
    ],
    top: Annotated[
        int,
        typer.Option(
            min=0, help="Show the N largest weights, or the first N columns.", metavar="N"
        ),
    ] = 20,
    topic: Topic = None,
    save: Annotated[
        str | None,
        typer.Option(
            help="Also save the model as a rankine file, to convert one of sofia-ml or SVMrank."
        ),
    ] = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", help="Show the log columns of a model, or propose a schema for a raw log."
        ),
    ] = False,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            help="Show the interval of every weight, of a model that was trained with --intervals.",
        ),
    ] = False,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    where: Where = None,
    json: AsJson = False,
) -> None:
    """Show what a file holds: a model's parameters and weights, or the columns of data.

    Data are described by rows, lists, columns with types, missing values, labels and examples,
    with the commands that come next.
    """
    if not intervals:
        reject_options(("confidence",), "applies to --intervals")
    if schema:
        options = ("top", "topic", "save", "intervals")
        reject_options(options, "cannot be combined with --schema")
        _show_schema(file, where, json=json)
        return
    if _holds_model(file):
        reject_options(("where",), "applies to tables, and this is a model")
        if intervals:
            reject_options(("topic", "save"), "cannot be combined with --intervals")
            _show_intervals(_load(file), top, confidence, json=json)
            return
        _show_model(_load(file), top, topic, save, json=json)
        return
    reject_options(("topic", "save", "intervals"), f"applies to a model, and {file} holds none")
    description = describe(file, where)
    if where is not None and description.overview is not None:
        report_excluded(description.overview.read_counts)
    if json:
        _console.print_json(description.to_dict())
    else:
        description.print(top)


def _show_model(
    loaded: LinearModel | ModelBundle, top: int, topic: str | None, save: str | None, *, json: bool
) -> None:
    """Print a model or bundle, and save it if a file is named."""
    if topic is not None:
        from rankine.model.bundle import select_model

        loaded = select_model(loaded, topic)
    if save is not None:
        loaded.save(save)
        _console.print_status(f"wrote {save}")
    summary = loaded.summary(top)
    if json:
        _console.print_json(summary)
    else:
        from rankine.model.show import summary_text

        typer.echo(summary_text(summary, _console.terminal_width()))


def _show_intervals(
    loaded: LinearModel | ModelBundle, top: int, confidence: float, *, json: bool
) -> None:
    """Print the intervals of the ``top`` largest weights, or of the cells of the largest tables."""
    from rankine.core.errors import ModelError, ParameterError
    from rankine.evaluation.tables import Table
    from rankine.model import LinearModel

    if not 0.0 < confidence < 1.0:
        raise ParameterError(
            f"{confidence} is not between 0 and 1", parameter="confidence", fix="Pass 0.95"
        )
    if not isinstance(loaded, LinearModel):
        raise ModelError("a bundle of models has no intervals", fix="Pass a single model")
    rows = loaded.intervals(confidence).to_pylist()
    if json:
        _console.print_json(rows)
        return
    numbers = [name for name in rows[0] if name not in ("name", "cell")] if rows else []
    largest: dict[str, float] = {}
    for row in rows:
        size = abs(row["estimate"])
        largest[row["name"]] = max(size, largest.get(row["name"], 0.0))
    names = sorted(largest, key=lambda name: -largest[name])[:top]
    shown = [row for name in names for row in rows if row["name"] == name]
    header = ("weight", *numbers)
    cells = [
        (printable(row.get("cell") or row["name"], 60), *(f"{row[name]:+.4g}" for name in numbers))
        for row in shown
    ]
    print_tables([Table("", header, cells)])
    if len(names) < len(largest):
        _console.print_result(f"({len(largest) - len(names):,} more: --top {len(largest)})")


# -- data ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Description:
    """What a file or folder of data holds, and the commands that use it.

    Attributes
    ----------
    kind
        A few words, such as "raw log (parquet)".
    facts
        Names and values to print.
    overview
        Columns and labels; None for runs, judgements and folders.
    """

    path: str
    kind: str
    facts: list[tuple[str, str]]
    overview: Overview | None
    commands: list[list[str]]

    def to_dict(self) -> dict[str, Any]:
        """Return data for JSON."""
        plain: dict[str, Any] = {"path": self.path, "kind": self.kind}
        if self.overview is None:
            plain |= {"facts": dict(self.facts)}
        else:
            plain |= self.overview.to_dict()
        return {**plain, "next": [shell_text(command) for command in self.commands]}

    def print(self, top: int) -> None:
        """Print the description; ``top`` columns are shown."""
        from rankine.evaluation.tables import Table

        print_values([("kind", self.kind), *self.facts])
        if self.overview is not None:
            columns = self.overview.columns[:top]
            header = ("column", "type", "missing", "values", "range", "most frequent")
            rows = [_column_row(column, self.overview.rows) for column in columns]
            _console.print_result("")
            text = ("range", "most frequent")
            print_tables([Table("", header, rows, left=2, further_text=text, optional=("range",))])
            n_hidden = len(self.overview.columns) - len(columns)
            if n_hidden:
                _console.print_result(f"({n_hidden:,} more columns: --top {top + n_hidden})")
        print_next_commands(self.commands)


def _column_row(column: ColumnOverview, n_rows: int) -> tuple[str, ...]:
    missing = f"{column.missing / max(n_rows, 1):.1%}" if column.missing else ""
    distinct = f"{len(column.counts):,}" if column.is_complete else f"over {len(column.counts):,}"
    number_range = ""
    if column.low is not None and column.high is not None:
        number_range = f"{column.low:g} to {column.high:g}"
    name = printable(column.name, 60)
    return name, column.type, missing, distinct, number_range, ", ".join(column.examples)


def describe(path: str, where: str | None = None) -> Description:
    """Describe a file or folder of data, or its rows that meet a condition."""
    from rankine.data.formats import choose_format
    from rankine.data.sources import find_sources
    from rankine.evaluation.systems import is_qrels, is_run

    if Path(path).is_dir() and not _is_hive_folder(path):
        return _describe_folder(path)
    source = find_sources(path)[0]
    form = choose_format(source, None, source.head())
    if form.name != "letor":
        return _describe_table(path, form.name, where)
    reject_options(("where",), f"applies to tables, and {path} is text")
    if is_run(path):
        return _describe_run(path)
    if is_qrels(path):
        return _describe_qrels(path)
    return _describe_lists(path)


def _is_hive_folder(path: str) -> bool:
    """Whether a folder has folders of Hive columns, such as date=2026-11-01."""
    return any("=" in folder.name for folder in Path(path).iterdir() if folder.is_dir())


def _describe_table(path: str, format_name: str, where: str | None) -> Description:
    """Describe a table: rows of features with label and query id, or a raw log."""
    from rankine.core.errors import DataError, ParameterError
    from rankine.data.overview import table_overview
    from rankine.data.sources import find_sources
    from rankine.logs.schema import column_names, propose_schema

    # Only the header is read here; the whole file is read once, for the overview.
    names = column_names(path)
    query, label = "qid", "label"
    # A table with these names holds features; anything else is described as a log.
    is_log = not {"qid", "label"} <= set(names)
    if is_log:
        try:
            schema, _ = propose_schema(path, where=where)
            query, label = schema.query, schema.label or ""
        except (DataError, ParameterError) as error:
            query, label, problem = "", "", str(error)
    # A label such as "clicked + 4*bought" is no column; its first outcome is shown.
    label = label.split(" ")[0].rpartition("*")[2]
    overview = table_overview(find_sources(path), query, label, where)
    facts = [("rows", f"{overview.rows:,}"), *_list_facts(overview, f"ids in {query}")]
    facts += _label_facts(overview, label)
    if not is_log:
        return Description(
            path,
            f"features and labels ({format_name})",
            facts,
            overview,
            _training(path, overview, where),
        )
    selection = _where_words(where)
    if not query:
        facts.append(("schema", f"none can be proposed: {problem}"))
        training = ["--query", "QUERY_COLUMN", "--label", "LABEL", "--numeric", "A,B"]
        commands = [["rankine", "train", path, *selection, *training, "--out", "model.rankine"]]
        return Description(path, f"table ({format_name})", facts, overview, commands)
    schema_file = f"{Path(path).stem.split('*')[0] or 'log'}.toml"
    training = ["--schema", schema_file, "--ranker", "additive", "--split", "time:0.8,0.2"]
    commands = [["rankine", "inspect", path, *selection, "--schema", ">", schema_file]]
    commands += [["rankine", "train", path, *selection, *training, "--out", "model.rankine"]]
    # rankine clicks cannot select rows.
    if schema.position is not None and schema.item is not None and where is None:
        columns = ["--query", query, "--label", label, "--item", schema.item]
        commands.append(["rankine", "clicks", "propensity", path, *columns])
    return Description(path, f"raw log ({format_name})", facts, overview, commands)


def _describe_lists(path: str) -> Description:
    """Describe a LETOR file."""
    import rankine
    from rankine.data.overview import dataset_overview

    overview = dataset_overview(rankine.scan(path, qid_type="str"))
    facts = [("rows", f"{overview.rows:,}"), *_list_facts(overview, "qid")]
    facts += [("features", f"{len(overview.columns):,}"), *_label_facts(overview, "label")]
    return Description(path, "LETOR text", facts, overview, _training(path, overview))


def _where_words(where: str | None) -> list[str]:
    return [] if where is None else ["--where", where]


def _training(path: str, overview: Overview, where: str | None = None) -> list[list[str]]:
    """Return the commands that learn from features and labels."""
    rows = [path, *_where_words(where)]
    commands = [
        ["rankine", "train", *rows, "--ranker", "additive", "--out", "model.rankine"],
        ["rankine", "tune", *rows, "--ranker", "ranksvm", "--out", "model.rankine"],
    ]
    if overview.contiguous is False:
        suffix = Path(path).suffix
        sorted_path = f"{path.removesuffix(suffix)}-sorted{suffix}"
        commands.append(["rankine", "sort", path, sorted_path, *_where_words(where)])
    return commands


def _list_facts(overview: Overview, source: str) -> list[tuple[str, str]]:
    if not overview.lists:
        return []
    mean = overview.rows / overview.lists
    text = (
        f"{overview.lists:,} ({source}), {mean:.1f} rows on average, at most {overview.longest:,}"
    )
    if not overview.contiguous:
        text += "; the rows of a list are not together, as --stream needs: rankine sort"
    return [("lists", text)]


def _label_facts(overview: Overview, name: str) -> list[tuple[str, str]]:
    """Return the rows of each label, unless it has too many values."""
    if not overview.labels:
        return []
    if len(overview.labels) > _MAX_LABELS:
        return [("labels", f"{len(overview.labels):,} values of {name}")]
    n_rows = max(overview.rows, 1)
    shares = (
        f"{value}: {count:,} ({count / n_rows:.1%})" for value, count in overview.labels.items()
    )
    return [("labels", f"{name} " + ", ".join(shares))]


def _describe_run(path: str) -> Description:
    """Describe a TREC run."""
    import numpy as np

    from rankine.evaluation.trec import read_run

    run = read_run(path)
    _, depths = np.unique(run.qid, return_counts=True)
    facts = [
        ("rows", f"{len(run.qid):,}"),
        ("lists", f"{len(depths):,}, {depths.mean():.1f} documents on average"),
        ("scores", f"{run.score.min():g} to {run.score.max():g}"),
        ("tag", printable(run.tag)),
    ]
    commands = [
        ["rankine", "evaluate", "--run", path, "--qrels", "QRELS"],
        ["rankine", "fuse", path, "OTHER_RUN", "--qrels", "QRELS", "--out", "fusion.rankine"],
    ]
    return Description(path, "TREC run", facts, None, commands)


def _describe_qrels(path: str) -> Description:
    """Describe TREC judgements."""
    import numpy as np

    from rankine.evaluation.trec import read_qrels

    qrels = read_qrels(path)
    grades, counts = np.unique(qrels.label, return_counts=True)
    shares = (f"{g:g}: {n:,}" for g, n in zip(grades.tolist(), counts.tolist(), strict=True))
    facts = [
        ("rows", f"{len(qrels.qid):,}"),
        ("queries", f"{len(np.unique(qrels.qid)):,}"),
        ("labels", ", ".join(shares)),
    ]
    commands = [["rankine", "evaluate", "--run", "RUN", "--qrels", path]]
    return Description(path, "TREC judgements (qrels)", facts, None, commands)


def _describe_folder(path: str) -> Description:
    """Describe a folder: one of the LETOR protocol, or its files by suffix."""
    from collections import Counter

    from rankine.core.errors import EmptyDataError
    from rankine.data.formats import FORMATS

    files = sorted(file for file in Path(path).iterdir() if not file.name.startswith("."))
    if not files:
        raise EmptyDataError("the folder is empty", file=path, fix="Check the path")
    names = {file.name.lower() for file in files}
    suffixes = Counter(_suffix(file) for file in files if file.is_file())
    counts = ", ".join(f"{count:,} {suffix}" for suffix, count in suffixes.most_common())
    facts = [("files", counts or "none"), ("folders", f"{sum(f.is_dir() for f in files):,}")]
    # LETOR collections have these names in all editions.
    if "fold1" in names or any(name.startswith(("s1.", "set1.train")) for name in names):
        commands = [["rankine", "letor", path, "--ranker", "all"]]
        return Description(path, "folder of the LETOR protocol", facts, None, commands)
    tables = [s for form in FORMATS.values() if form.reader and form.name != "letor"
              for s in form.suffixes]  # fmt: skip
    # Files of one table format are usually the parts of one log.
    patterns = [str(Path(path) / f"*{s}") for s in tables if suffixes[s] > 1]
    known = {*tables, *FORMATS["letor"].suffixes, ".rankine", ".run", ".qrels"}
    single = [str(file) for file in files if file.is_file() and _suffix(file) in known]
    commands = [["rankine", "inspect", each] for each in (patterns or single)[:_MAX_FILES]]
    return Description(path, "folder", facts, None, commands)


def _suffix(file: Path) -> str:
    """Return the suffix of a file before the one of its compression, or its name."""
    from rankine.data.compression import strip_compression

    return Path(strip_compression(file.name)).suffix or file.name


# -- models and schemas -------------------------------------------------------------------------


def _show_schema(path: str, where: str | None, *, json: bool) -> None:
    """Print the schema of a model, or one proposed for a log, as TOML."""
    import msgspec

    from rankine.core.errors import ParameterError
    from rankine.logs import propose_schema, schema_of
    from rankine.logs.schema import column_names
    from rankine.model import LinearModel

    reasons: dict[str, str] = {}
    if _is_model(path):
        schema = schema_of(LinearModel.load(path))
        if schema is None:
            raise ParameterError(
                "the model reads features, not the columns of a log",
                parameter="schema",
                fix="Leave it out",
            )
    else:
        if {"qid", "label"} <= set(column_names(path)):
            raise ParameterError(
                f"{path} holds features and labels, which need no schema",
                parameter="schema",
                fix="Leave it out, and train on the file as it is",
            )
        schema, reasons = propose_schema(path, where=where)
    if json:
        _console.print_json(msgspec.to_builtins(schema))
        return
    typer.echo(schema.to_toml(), nl=False)
    for column, reason in reasons.items():
        lines = wrap_text(f"# {column}: {reason}", _console.terminal_width(), indent="#   ")
        typer.echo("\n".join(lines))


def _is_model(path: str) -> bool:
    """Return whether a file starts like a rankine model."""
    if not is_file(path):
        return False
    with open_binary(path) as file:
        return file.read(64)[8:].startswith(_MODEL_HEADER)


def _holds_model(path: str) -> bool:
    """Return whether a file is a model of rankine, by content or name, or of another program."""
    from rankine.evaluation.systems import is_qrels, is_run
    from rankine.model.foreign import is_foreign

    if _is_model(path) or path.endswith(".rankine"):
        return True
    if not is_file(path) or is_run(path) or not is_foreign(path):
        return False
    # Judgements start with numbers, as models of sofia-ml do, which are a single line.
    return not is_qrels(path) or len(read_bytes(path).splitlines()) == 1


def _load(path: str) -> LinearModel | ModelBundle:
    from rankine.model.foreign import is_foreign, read_foreign
    from rankine.model.store import load_any

    if is_foreign(path):
        return read_foreign(path)
    return load_any(path)
