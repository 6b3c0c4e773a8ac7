"""Options for reading data: files of features, raw logs and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from rankine.cli import _console
from rankine.cli._groups import option_names, option_panel, print_at_end, reject_options
from rankine.cli._options import split_list
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.logs.schema import LogSchema
    from rankine.model import LinearModel
    from rankine.reranking import Rules

_option = option_panel("Reading")
_log = option_panel("Raw logs")
_Format = Annotated[
    str | None,
    _option(
        "--format",
        help="Read this format: letor, parquet, arrow, csv or json (lines) "
        "(default: detected from the content).",
    ),
]
_QidType = Annotated[str, _option("--qid-type", help="Read query ids of text as int or str.")]
_Base = Annotated[int, _option("--base", help="Index of the first feature in text files, 1 or 0.")]
_OnBadRow = Annotated[
    str, _option("--on-bad-row", help="Stop at bad rows (error), or skip and count them (skip).")
]
_Label = Annotated[
    str | None,
    _option(
        "--label",
        help="Label column (default: label). For raw logs also a formula: clicked + 4*purchased.",
    ),
]
_Query = Annotated[str | None, _option("--query", help="Query column (default: qid).")]
_Columns = Annotated[
    str | None, _option("--columns", help="Keep these further columns, comma-separated.")
]
Where = Annotated[
    str | None,
    _option(
        "--where",
        help="Read only rows of tables that meet a condition: date >= 2026-11-01 and shop == 'DE'. "
        "Hive folders and row groups of Parquet without such rows are not read.",
        metavar="CONDITION",
    ),
]
#: Options of feature files that have no meaning for raw logs.
_FEATURE_FILE_OPTIONS = (
    "base", "qid_type", "feature_names", "group", "single_query", "n_features", "dtype", "features",
)  # fmt: skip


class _ReadOptions:
    """Base of the groups that become keyword arguments of ``rankine.load``."""

    def options(self, **more: Any) -> dict[str, Any]:
        """Return the options that were given, as keyword arguments of ``rankine.load``."""
        not_for_load = (*option_names(LogOptions), "pairs")
        values = {name: value for name, value in vars(self).items() if name not in not_for_load}
        values |= more
        values = {name: value for name, value in values.items() if value is not None}
        if "columns" in values:
            values["columns"] = split_list(values["columns"])
        return {"progress": _console.verbosity() >= 0, **values}


@dataclass(frozen=True)
class LogOptions:
    """How the columns of a raw log are used."""

    schema: Annotated[
        str | None,
        _log(
            help="TOML file that describes the columns; rankine inspect LOG --schema proposes one."
        ),
    ] = None
    categorical: Annotated[
        str | None, _log(help="Hash the values of these columns to features, comma-separated.")
    ] = None
    numeric: Annotated[str | None, _log(help="Use these columns as numbers.")] = None
    one_hot: Annotated[
        str | None, _log(help="Make one feature of each value of these columns.")
    ] = None
    binned: Annotated[
        str | None, _log(help="Make one feature of each range of these numeric columns.")
    ] = None
    cross: Annotated[
        list[str] | None, _log(help="Hash pairs of values of two columns, a*b; repeatable.")
    ] = None
    hash_bits: Annotated[
        int | None, _log(help="Hash into 2^N features (default: 20).", metavar="N")
    ] = None
    bins: Annotated[int | None, _log(help="Number of ranges of a binned column (default: 32).")] = (
        None
    )
    cuts: Annotated[
        str | None,
        _log(
            help='JSON file of the limits of ranges, {"price": [1, 2.5]} '
            "(default: measured on the log)."
        ),
    ] = None
    time: Annotated[
        str | None,
        _log(
            "--time",
            "--time-column",
            help="Time column (default: the order in the files is the order in time).",
        ),
    ] = None
    split: Annotated[
        str | None,
        _log(
            "--split",
            help="Train on the oldest lists and evaluate on newer ones: time:9/11,1/11,1/11.",
        ),
    ] = None
    state: Annotated[
        str | None,
        _log(
            help="Folder of the state of history features, which the log continues. rankine train "
            "creates it if necessary; train and retrain save the state after the log there.",
            metavar="DIR",
        ),
    ] = None

    @property
    def raw(self) -> bool:
        """Whether the options describe a raw log: a schema or a feature column is named."""
        column_lists = (self.categorical, self.numeric, self.one_hot, self.binned)
        return self.schema is not None or bool(self.cross) or any(map(split_list, column_lists))


@dataclass(frozen=True)
class ModelReadingOptions(LogOptions, _ReadOptions):
    """Options for data that an existing model scores; the model defines the features."""

    format: _Format = None
    base: Annotated[
        int | None,
        _option(help="Index of the first feature in text files (default: the model's)."),
    ] = None
    qid_type: _QidType = "int"
    feature_names: Annotated[str | None, _option(help="File with one feature name per line.")] = (
        None
    )
    label: _Label = None
    query: _Query = None
    columns: _Columns = None
    where: Where = None
    group: Annotated[
        str | None, _option(help="File of group sizes, for text without query ids.")
    ] = None
    pairs: Annotated[
        str | None,
        _option(
            help="Read comparisons from the columns of winner and loser: winner,loser; their "
            "features are winner_x, loser_x."
        ),
    ] = None
    single_query: Annotated[
        bool, _option("--single-query", help="Read text without query ids as one query.")
    ] = False

    def open(
        self,
        paths: Any,
        *,
        stream: bool = False,
        model: LinearModel | None = None,
        like: Any = None,
        columns: Sequence[str] = (),
        log_schema: LogSchema | None = None,
        state: Any = None,
        **more: Any,
    ) -> Any:
        """Read the data to a ``Dataset``, or open a stream of them.

        Parameters
        ----------
        model
            Existing model that reads the data.
        like
            Log or model whose features the data must have.
        columns
            Further columns to keep.
        log_schema
            Result of the method ``log_schema``, if the caller has called it.
        state
            State of history features, instead of the folder of ``--state``.
        more
            Further options of reading.
        """
        from rankine.logs.source import scan

        reference = model if like is None else like
        state = self.state if state is None else state
        is_log = self.raw or log_schema_of(reference) is not None
        self._check_column_options(is_log=is_log)
        if self.pairs:
            return self._open_pairs(paths, reference, stream=stream)
        if self.cuts is not None and (model is not None or not self.raw):
            raise ParameterError(
                "applies to binned columns in training only",
                parameter="cuts",
                fix="Leave it out, or add --binned",
            )
        if model is not None:
            return self._open_for_model(paths, model, columns, more, stream=stream)
        if not self.raw and like is None:
            return self._open_features(paths, columns, more, stream=stream)
        schema = log_schema or self.log_schema(like, **more)
        assert schema is not None  # noqa: S101 - narrows the type
        # Columns that the command itself needs, such as positions, are kept as well.
        schema = msgspec.structs.replace(schema, columns=(*schema.columns, *columns))
        cuts = self.cuts if like is None else None
        log = scan(
            paths,
            schema=schema,
            like=like,
            cuts=cuts,
            state=state,
            **self._log_read_options(more),
        )
        report_excluded(log)
        return log if stream else log.load()

    def log_schema(self, like: Any = None, **more: Any) -> LogSchema | None:
        """Return the use of the columns of a raw log; None for files of features.

        Options override the schema file, and this overrides the schema of the log or model
        ``like``. ``more`` are further fields of the schema.
        """
        from rankine.logs.schema import LogSchema, read_schema

        # A schema file replaces that of the model; single options then change it.
        base = log_schema_of(like) if self.schema is None else read_schema(self.schema)
        is_log = self.raw or base is not None
        self._check_column_options(is_log=is_log)
        if not is_log:
            return None
        return LogSchema.make(self.log_fields(**more), base)

    def log_fields(self, **more: Any) -> dict[str, Any]:
        """Return the fields of a ``LogSchema`` that options give."""
        from rankine.logs.schema import LogSchema

        values = self.options(**more)
        for name in ("categorical", "numeric", "one_hot", "binned"):
            values[name] = split_list(getattr(self, name))
        values["crosses"] = tuple(self.cross or ())
        for name in ("hash_bits", "bins", "time"):
            values[name] = getattr(self, name)
        fields_of_schema = LogSchema.__struct_fields__
        return {k: value for k, value in values.items() if value and k in fields_of_schema}

    def _log_read_options(self, more: dict[str, Any]) -> dict[str, Any]:
        """Return the options of reading a raw log that are no fields of its schema."""
        from rankine.logs.schema import LogSchema

        for field in fields(self):
            # An option that was not given has its default.
            is_default = getattr(self, field.name) == field.default
            if field.name in _FEATURE_FILE_OPTIONS and not is_default:
                raise ParameterError(
                    "applies to files of features, and this is a raw log",
                    parameter=field.name,
                    fix="Leave it out",
                )
        excluded = (*_FEATURE_FILE_OPTIONS, *LogSchema.__struct_fields__)
        options = self.options(**more)
        return {name: value for name, value in options.items() if name not in excluded}

    def _check_column_options(self, *, is_log: bool) -> None:
        """Raise an error for options of raw logs if the data are no raw log."""
        if is_log:
            return
        if self.state is not None:
            raise ParameterError(
                "applies to history features of a raw log", parameter="state", fix="Leave it out"
            )
        for name in ("hash_bits", "bins"):
            if getattr(self, name) is not None:
                raise ParameterError(
                    "applies to columns of a raw log, and none is named",
                    parameter=name,
                    fix="Leave it out, or name columns: --categorical a,b or --binned a,b",
                )

    def _open_features(
        self, paths: Any, columns: Sequence[str], more: dict[str, Any], *, stream: bool
    ) -> Any:
        """Read files of features."""
        import rankine

        options = self.options(**more)
        options["columns"] = self._kept_columns(options, columns)
        read = rankine.scan if stream else rankine.load
        data = read(paths, **options)
        report_excluded(data)
        return data

    def _open_for_model(
        self,
        paths: Any,
        model: LinearModel,
        columns: Sequence[str],
        more: dict[str, Any],
        *,
        stream: bool,
    ) -> Any:
        """Read data with the features of a model; with ``--split``, return the newest part."""
        from rankine.logs.schema import read_schema
        from rankine.logs.source import read_for

        schema = None if self.schema is None else read_schema(self.schema)
        if log_schema_of(model) is not None:
            options = {**self._log_read_options(more), **self.log_fields(**more)}
            options["state"] = self.state
            columns = (*options.pop("columns", ()), *columns)
        elif self.raw:
            raise ParameterError(
                "the model reads features, and the options name columns of a raw log",
                fix="Leave them out",
            )
        else:
            options = self.options(**more)
            columns = self._kept_columns(options, columns)
            options.pop("columns", None)
        data = read_for(model, paths, schema=schema, stream=stream, columns=columns, **options)
        report_narrower_files(model, data)
        report_excluded(data)
        return self.newest(data)

    def _kept_columns(self, options: dict[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns to keep in addition to features, without repetitions."""
        time = () if self.time is None else (self.time,)
        return tuple(dict.fromkeys((*options.get("columns", ()), *columns, *time)))

    def _open_pairs(self, paths: Any, reference: Any, *, stream: bool) -> Any:
        """Read comparisons of two items."""
        from rankine.data.comparisons import read_pairs

        others = (name for name in option_names(ReadingOptions) if name not in ("pairs", "split"))
        reject_options(others, "cannot be combined with --pairs")
        names = split_list(self.pairs)
        if len(names) != 2 or stream or self.raw:
            raise ParameterError(
                "needs two columns of files that are read into memory",
                parameter="pairs",
                fix="Write --pairs winner,loser, without --stream, --dask and columns of logs",
            )
        # Held-out data must have the columns of the training data or of the model.
        feature_names = None if reference is None else reference.feature_names
        return read_pairs(paths, names[0], names[1], feature_names)

    def open_like(self, paths: Any, data: Any, **more: Any) -> Any:
        """Read held-out data into memory, with the features of the training data.

        History features continue the training data, so the state before that is not used.
        """
        if self.pairs or log_schema_of(data) is not None:
            return replace(self, state=None).open(paths, like=data, **more)
        return self.open(paths, **{**more, "n_features": data.n_features})

    def open_for(
        self, paths: Any, models: Sequence[LinearModel], columns: Sequence[str] = ()
    ) -> Any:
        """Read data into memory, with all columns that these models read, and further ones."""
        from rankine.evaluation.systems import select_reader

        model, model_columns = select_reader(models)
        return self.open(paths, model=model, columns=(*model_columns, *columns))

    def parts(self, data: Any) -> dict[str, Any]:
        """Return the parts of ``--split`` by name, or all of the data as ``"train"``."""
        from rankine.data.splits import named_parts

        if self.split is None:
            return {"train": data}
        time = self.time
        schema = log_schema_of(data)
        if time is None and schema is not None:
            time = schema.time
        return named_parts(data, self.split, time)

    def parts_with(
        self, data: Any, held_out: Mapping[str, str | None], **more: Any
    ) -> dict[str, Any]:
        """Return the parts of ``--split``, or the training rows and held-out files, by name.

        ``held_out`` has the file of each option, or None; ``more`` are options of reading these.
        """
        files = {name: path for name, path in held_out.items() if path is not None}
        if self.split is not None:
            for name in files:
                raise ParameterError(
                    "cannot be combined with --split", parameter=name, fix="Leave one of them out"
                )
            return self.parts(data)
        parts = {name: self.open_like(path, data, **more) for name, path in files.items()}
        return {"train": data, **parts}

    def repeated_words(self, *, is_log: bool) -> list[str]:
        """Return the written options by which the next command reads the same rows.

        A model of a raw log holds its columns, so only the choice of rows is repeated for it.
        """
        names: tuple[str, ...] = ("format", "where")
        if not is_log:
            names += ("qid_type", "feature_names", "label", "query", "group", "pairs", "time")
        defaults = {field.name: field.default for field in fields(self)}
        words = []
        for name in names:
            value = getattr(self, name)
            if value != defaults[name]:
                words += [f"--{name.replace('_', '-')}", value]
        if self.single_query:
            words.append("--single-query")
        return words

    def newest(self, data: Any) -> Any:
        """Return the last (newest) part of ``--split``, on which models are evaluated."""
        return list(self.parts(data).values())[-1]


def log_schema_of(source: Any) -> LogSchema | None:
    """Return the log schema of a model or of data; None if they contain features only."""
    from rankine.logs.schema import schema_of
    from rankine.model import LinearModel

    if isinstance(source, LinearModel):
        return schema_of(source)
    # A LogScan knows its schema; its encoding may have to be measured on the files first.
    for owner in (source, getattr(source, "encoding", None)):
        schema: LogSchema | None = getattr(owner, "schema", None)
        if schema is not None:
            return schema
    return None


def report_narrower_files(model: LinearModel, data: Any) -> None:
    """Print how many text files have fewer features than the model.

    For a stream, call this after all of it was read.
    """
    n_narrower = (getattr(data, "read_counts", None) or {}).get("narrower_files", 0)
    if n_narrower:
        _console.print_status(
            f"{n_narrower} of {len(data.sources)} files have fewer features than the model "
            f"({model.n_columns:,}); the missing ones are taken as 0"
        )


def report_excluded(data: Any) -> None:
    """Print, at the end of the command, how much of the data ``--where`` has left out.

    A command may read the same files more than once, to estimate propensities for example.
    """
    options = getattr(data, "options", None)
    if not isinstance(data, Mapping) and getattr(options, "where", "") is None:
        return

    def text() -> str:
        read_counts = data
        if not isinstance(data, Mapping):
            read_counts = getattr(data, "read_counts", None) or {}
        n_rows, n_files = (read_counts.get(f"excluded_{what}", 0) for what in ("rows", "files"))
        parts = []
        if n_rows:
            parts.append(f"{n_rows:,} rows")
        if n_files:
            parts.append(f"{n_files:,} files unread")
        if not parts:
            return ""
        return f"--where left out {' and '.join(parts)}"

    print_at_end(text)


@dataclass(frozen=True)
class RuleOptions:
    """Rules that ranked lists follow."""

    rules: Annotated[
        str | None, typer.Option(help="Follow the rules of this TOML file.", metavar="FILE")
    ] = None
    rules_at: Annotated[
        str | None,
        typer.Option(
            help="Apply the rules that are valid at this time, ISO 8601 (default: now).",
            metavar="TIME",
        ),
    ] = None

    def load(self) -> Rules | None:
        """Read the rules; None without any."""
        if self.rules is None:
            reject_options(("rules_at",), "needs --rules", fix="Leave it out, or add --rules")
            return None
        from rankine.reranking import Rules

        _ = self.time  # a bad time is an error before any data are read
        return Rules.load(self.rules)

    @property
    def time(self) -> float | None:
        """Return the time of the lists, in seconds since 1970; None: now."""
        if self.rules_at is None:
            return None
        from rankine.reranking.schema import parse_moment

        try:
            return parse_moment(self.rules_at)
        except ValueError:
            raise ParameterError(
                f"{self.rules_at!r} is not a time",
                parameter="rules_at",
                fix="Write a date, or a time such as 2026-11-20T08:00:00Z",
            ) from None

    def ranks(self, rules: Rules, data: Any, scores: Any) -> Any:
        """Return the rank of each row in its list, from 1; 0 for removed rows."""
        from rankine.reranking.datasets import rule_ranks

        return rule_ranks(rules, data, scores, time=self.time)

    @staticmethod
    def columns(rules: Rules | None, model: LinearModel) -> tuple[str, ...]:
        """Return the columns that the data must have for the rules."""
        if rules is None:
            return ()
        from rankine.reranking.datasets import columns_to_read

        return columns_to_read(rules, model)


@dataclass(frozen=True)
class ReadingOptions(ModelReadingOptions):
    """Options for data to train on or convert; the data define the features."""

    base: _Base = 1
    n_features: Annotated[
        int | None, _option(help="Number of features (default: the largest index).")
    ] = None
    on_bad_row: _OnBadRow = "error"
    dtype: Annotated[
        str | None,
        _option(help="Store features as float64 or float32 (default: as in the file)."),
    ] = None


@dataclass(frozen=True)
class SortOptions(_ReadOptions):
    """Options for data that is rewritten row by row."""

    qid_type: _QidType = "int"
    base: _Base = 1
    on_bad_row: _OnBadRow = "error"
    query: _Query = None
    where: Where = None


@dataclass(frozen=True)
class ClickColumnOptions:
    """Columns of a click log."""

    query: Annotated[str, typer.Option(help="Query column.")] = "qid"
    label: Annotated[str, typer.Option(help="Column or formula of the label.")] = "clicked"
    position: Annotated[str, typer.Option(help="Column of displayed positions, from 1.")] = (
        "position"
    )
    search: Annotated[str | None, typer.Option(help="Column of the search text.")] = None
    schema: Annotated[str | None, typer.Option(help="TOML file that names these columns.")] = None

    def columns(self, **more: str | None) -> dict[str, Any]:
        """Return the columns, with defaults from the file of ``--schema``."""
        from rankine.logs.schema import read_schema

        columns = {**vars(self), **more}
        schema_file = columns.pop("schema")
        if schema_file is None:
            return columns
        schema = read_schema(schema_file)
        defaults = {field.name: field.default for field in fields(self)}
        for name, value in columns.items():
            if value == defaults.get(name):
                columns[name] = getattr(schema, name) or value
        return columns


@dataclass(frozen=True)
class SessionColumnOptions(ClickColumnOptions):
    """Columns of the log of an interleaving, as ``rankine interleave plan`` names them."""

    query: Annotated[str, typer.Option(help="Column of the list that a row belongs to.")] = (
        "session"
    )
