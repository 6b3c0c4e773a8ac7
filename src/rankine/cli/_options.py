"""Options that several commands share, alone and in groups.

A group is a frozen dataclass whose fields are annotated as typer options. A command takes it as one
parameter, ``reading: ReadingOptions``; ``expand_groups`` puts its fields in the parameter's place for typer and
gathers their values again when the command runs. So an option is declared once, and a command
reads as what it does.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from rankine.cli import _console
from rankine.core.errors import ParameterError
from rankine.core.strict_json import parse_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rankine.logs.schema import LogSchema
    from rankine.model import LinearModel

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on one line.")]
AsLatex = Annotated[bool, typer.Option("--latex", help="LaTeX tables.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Markdown tables.")]
Files = Annotated[list[str], typer.Argument(help="Files, patterns, or - for stdin.")]
ModelFile = Annotated[str, typer.Argument(help="Model file.")]
ReportFile = Annotated[
    str | None, typer.Option("--report", help="Also write an HTML page about the result.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all randomness.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Parameter name=value, repeatable.")
]


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only results and errors.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say more; show tracebacks of errors.")
]


@dataclass(frozen=True)
class Verbosity:
    """How much is said; every command takes it, before its name and after."""

    quiet: Quiet = False
    verbose: Verbose = False

    def __post_init__(self) -> None:
        if self.quiet or self.verbose:
            _console.set_verbosity(1 if self.verbose else -1)


def expand_groups(command: Callable[..., None], beside: type | None = None) -> Callable[..., None]:
    """The command with the options of its groups in place of the groups.

    ``beside`` is a group of options that act by themselves: the command does not get it.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            parameters += _options_of(kind)
        else:
            parameters.append(_keyword(parameter.name, kind, parameter.default))
    if beside is not None:
        parameters += _options_of(beside)
    parameters.append(_keyword("typer_context", typer.Context, inspect.Parameter.empty))

    @wraps(command)
    def run(*, typer_context: typer.Context, **given: Any) -> None:
        if beside is not None:
            beside(**{field.name: given.pop(field.name) for field in fields(beside)})
        for name, kind in groups.items():
            own = {field.name: given.pop(field.name) for field in fields(kind)}
            given[name] = kind(**own)
        token = _GIVEN.set(_given(typer_context))
        try:
            command(**given)
        finally:
            _GIVEN.reset(token)

    # typer reads the signature; it must not look through to the command's own.
    del run.__wrapped__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


#: The options that stand on the command line, by the names of their parameters.
_GIVEN: ContextVar[Mapping[str, str]] = ContextVar("_GIVEN")


def _given(context: typer.Context) -> dict[str, str]:
    return {
        str(one.name): max(one.opts, key=len)
        for one in context.command.params
        if getattr(context.get_parameter_source(str(one.name)), "name", "") == "COMMANDLINE"
    }


def reject_options(names: Iterable[str], why: str, fix: str = "Leave it out") -> None:
    """Refuse options that stand on the command line and would be ignored."""
    given = _GIVEN.get({})
    for name in names:
        if name in given:
            raise ParameterError(f"{given[name]} {why}", fix=fix)


def option_names(*groups: type) -> tuple[str, ...]:
    """Names of the options of groups."""
    return tuple(field.name for group in groups for field in fields(group))


def require_one_format(**forms: bool) -> None:
    """Refuse an output in several forms."""
    chosen = [f"--{name}" for name, wanted in forms.items() if wanted]
    if len(chosen) > 1:
        raise ParameterError(f"the output has several forms: {', '.join(chosen)}", fix="Give one")


def _options_of(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [_keyword(field.name, hints[field.name], field.default) for field in fields(group)]


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


Missing = Annotated[
    str, typer.Option(help="Missing values: auto, error, zero, mean, query_min or indicator.")
]


def panel(title: str) -> Any:
    """``typer.Option`` for options whose help stands under a title of its own."""
    return partial(typer.Option, rich_help_panel=title)


_option = panel("Reading")
_log = panel("Raw logs")
_Format = Annotated[
    str | None,
    _option(
        "--format", help="letor, parquet, arrow, csv or json (lines); default: by content."
    ),
]
_QidType = Annotated[str, _option("--qid-type", help="int or str: how text query ids are read.")]
_Base = Annotated[int, _option("--base", help="First feature index of text files: 1 or 0.")]
_OnBadRow = Annotated[str, _option("--on-bad-row", help="error, or skip (skips are counted).")]
_Label = Annotated[
    str | None,
    _option("--label", help="Label column (label); of raw logs a formula: clicked + 4*purchased."),
]
_Query = Annotated[str | None, _option("--query", help="Query column (qid).")]
_Columns = Annotated[
    str | None, _option("--columns", help="Further columns to keep, comma-separated.")
]


def split_list(text: str | None) -> tuple[str, ...]:
    """The parts of a comma-separated list."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


class _Group:
    """What every group of reading options can do."""

    def options(self, **more: Any) -> dict[str, Any]:
        """Keyword arguments of ``rankine.load``; an option that is not given is left out."""
        own = (*_LOG_FIELDS, "pairs")
        given = {name: value for name, value in vars(self).items() if name not in own}
        found = {name: value for name, value in {**given, **more}.items() if value is not None}
        if "columns" in found:
            found["columns"] = split_list(found["columns"])
        return {"progress": _console.verbosity() >= 0, **found}


@dataclass(frozen=True)
class LogOptions(_Group):
    """Columns of a raw log by their use."""

    schema: Annotated[
        str | None, _log(help="TOML file that says all of this (rankine inspect LOG --schema).")
    ] = None
    categorical: Annotated[str | None, _log(help="Columns to hash, comma-separated.")] = None
    numeric: Annotated[str | None, _log(help="Columns to use as numbers.")] = None
    one_hot: Annotated[str | None, _log(help="Columns with a feature per value.")] = None
    binned: Annotated[str | None, _log(help="Columns of numbers with a feature per range.")] = None
    cross: Annotated[list[str] | None, _log(help="Columns to hash together, a*b; repeatable.")] = (
        None
    )
    hash_bits: Annotated[int | None, _log(help="The hashed space has 2^N features (20).")] = None
    bins: Annotated[int | None, _log(help="Ranges of a binned column (32).")] = None
    cuts: Annotated[
        str | None, _log(help='JSON of cuts, {"price": [1, 2.5]}; default: measured on the log.')
    ] = None
    time: Annotated[
        str | None, _log("--time", "--time-column", help="Column of times; default: file order.")
    ] = None
    split: Annotated[
        str | None,
        _log("--split", help="time:9/11,1/11,1/11: train on the oldest lists, judge newer ones."),
    ] = None

    @property
    def raw(self) -> bool:
        """Whether a schema, or any column of a raw log, was named."""
        lists = (self.categorical, self.numeric, self.one_hot, self.binned)
        return self.schema is not None or bool(self.cross) or any(map(split_list, lists))

    def fields(self, **more: Any) -> dict[str, Any]:
        """Keyword arguments of ``rankine.logs.scan``; an option that is not given is left out."""
        from rankine.logs.schema import LogSchema

        names = ("categorical", "numeric", "one_hot", "binned")
        given = {
            **{name: split_list(getattr(self, name)) for name in names},
            "crosses": tuple(self.cross or ()),
            "hash_bits": self.hash_bits,
            "bins": self.bins,
            "time": self.time,
        }
        found = {name: value for name, value in given.items() if value}
        known = LogSchema.__struct_fields__
        options = {**self.options(**more), **found}
        return {name: value for name, value in options.items() if name in known}

    def log_schema(self, like: LinearModel | None = None) -> LogSchema | None:
        """What the options, ``--schema`` and a model say of a raw log; None without a word."""
        from rankine.logs.schema import LogSchema, read_schema, schema_of

        before = None if like is None else schema_of(like)
        if self.schema is not None:
            before = read_schema(self.schema)
        self._shapes_columns(raw=self.raw or before is not None)
        return LogSchema.make(self.fields(), before) if self.raw or before is not None else None

    def _shapes_columns(self, *, raw: bool) -> None:
        for name in () if raw else ("hash_bits", "bins"):
            if getattr(self, name) is not None:
                raise ParameterError(
                    f"--{name.replace('_', '-')} shapes columns of a raw log, and none is named",
                    fix="Leave it out, or name columns: --categorical a,b or --binned a,b",
                )

    def open(
        self,
        paths: Any,
        *,
        stream: bool = False,
        model: LinearModel | None = None,
        like: Any = None,
        columns: Sequence[str] = (),
        **more: Any,
    ) -> Any:
        """The data: a ``Dataset``, or a stream of them.

        Parameters
        ----------
        model
            Reads them, where there is one.
        like
            A log or a model whose features these shall have.
        columns, more
            Further columns, and options of reading.
        """
        import rankine
        from rankine.logs.schema import read_schema, schema_of
        from rankine.logs.source import read_for, scan

        read_by = model if like is None else like
        self._shapes_columns(raw=self.raw or (read_by is not None and _is_of_log(read_by)))
        if pairs := split_list(getattr(self, "pairs", None)):
            return self._compared(paths, pairs, stream, read_by)
        schema = None if self.schema is None else read_schema(self.schema)
        if self.cuts is not None and (model is not None or not self.raw):
            raise ParameterError(
                "--cuts are those of binned columns in training",
                fix="Leave it out, or add --binned",
            )
        if model is not None:
            raw = schema_of(model) is not None
            if not raw and self.raw:
                raise ParameterError(
                    "the model reads features, and the options name columns of a raw log",
                    fix="Leave them out",
                )
            options = self._of_log(more) if raw else self.options(**more)
            kept = (*options.pop("columns", ()), *columns)
            if not raw and self.time is not None:
                kept = (*kept, self.time)
            found = read_for(model, paths, schema=schema, stream=stream, columns=kept, **options)
            report_narrower_files(model, found)
            return self.newest(found)
        if not self.raw and like is None:
            options = self.options(**more)
            kept = (*options.pop("columns", ()), *columns)
            if self.time is not None:
                kept = (*kept, self.time)
            read = rankine.scan if stream else rankine.load
            return read(paths, columns=tuple(dict.fromkeys(kept)), **options)
        cuts = self.cuts if like is None else None
        fields = self._of_log(more)
        fields["columns"] = (*fields.get("columns", ()), *columns)
        log = scan(paths, schema=schema, like=like, cuts=cuts, **fields)
        return log if stream else log.load()

    def parts(self, data: Any) -> dict[str, Any]:
        """The parts of ``--split``, or all of the data as ``"train"``."""
        from rankine.data.splits import named_parts

        if self.split is None:
            return {"train": data}
        encoding = getattr(data, "encoding", None)
        time = self.time or (None if encoding is None else encoding.schema.time)
        return named_parts(data, self.split, time)

    def newest(self, data: Any) -> Any:
        """The last part of ``--split``, on which models are judged."""
        return list(self.parts(data).values())[-1]

    def open_like(self, paths: Any, data: Any, **more: Any) -> Any:
        """Held-out data in memory, with the features of other data."""
        if getattr(data, "encoding", None) is not None or getattr(self, "pairs", None):
            return self.open(paths, like=data, **more)
        return self.open(paths, **{**more, "n_features": data.n_features})

    def _compared(self, paths: Any, pairs: Sequence[str], stream: bool, like: Any) -> Any:
        """Comparisons of two."""
        from rankine.data.comparisons import read_pairs

        others = (name for name in option_names(ReadingOptions) if name not in ("pairs", "split"))
        reject_options(others, "says nothing to --pairs, which reads columns by their names")
        if len(pairs) != 2 or stream or self.raw:
            raise ParameterError(
                "--pairs names two columns of files that are read into memory",
                fix="Write --pairs winner,loser, without --stream, --dask and columns of logs",
            )
        names = None if like is None else like.feature_names
        return read_pairs(paths, pairs[0], pairs[1], names)

    def open_for(self, paths: Any, models: Sequence[LinearModel]) -> Any:
        """The data in memory, with the columns of all these models."""
        from rankine.evaluation.systems import select_reader

        model, columns = select_reader(models)
        return self.open(paths, model=model, columns=columns)

    def _of_log(self, more: dict[str, Any]) -> dict[str, Any]:
        """Options for a raw log; those of feature files are refused."""
        for field in fields(self):
            if field.name in _FEATURE_FILES and getattr(self, field.name) != field.default:
                raise ParameterError(
                    f"--{field.name.replace('_', '-')} says how files of features are read, and "
                    "this is a raw log",
                    fix="Leave it out",
                )
        options = self.options(**more).items()
        rest = {name: value for name, value in options if name not in _FEATURE_FILES}
        return {**rest, **self.fields(**more)}


def _is_of_log(one: Any) -> bool:
    """Whether a model, or data, were made of the columns of a log."""
    from rankine.logs.schema import schema_of
    from rankine.model import LinearModel

    if isinstance(one, LinearModel):
        return schema_of(one) is not None
    return getattr(one, "encoding", None) is not None


def report_narrower_files(model: LinearModel, data: Any) -> None:
    """Say where text files hold fewer features than the model: the rest is taken as 0.

    Streams know it once they were read.
    """
    narrower = (getattr(data, "read_counts", None) or {}).get("narrower_files", 0)
    if narrower:
        _console.print_status(
            f"{narrower} of {len(data.sources)} files hold fewer features than the model's "
            f"{model.n_columns:,}: the others are taken as 0"
        )


#: Fields that only raw logs have, and fields that only files of features have.
_LOG_FIELDS = frozenset(field.name for field in fields(LogOptions))
_FEATURE_FILES = (
    "base", "qid_type", "feature_names", "group", "single_query", "n_features", "dtype", "features",
)  # fmt: skip


@dataclass(frozen=True)
class ModelReadingOptions(LogOptions):
    """Data for a model that exists: it knows its features."""

    format: _Format = None
    base: Annotated[
        int | None, _option(help="First feature index of text files; default: the model's.")
    ] = None
    qid_type: _QidType = "int"
    feature_names: Annotated[str | None, _option(help="File with one feature name a line.")] = None
    label: _Label = None
    query: _Query = None
    columns: _Columns = None
    group: Annotated[
        str | None, _option(help="File of group sizes for text without query ids.")
    ] = None
    pairs: Annotated[
        str | None,
        _option(help="Comparisons: columns of winner and loser (winner,loser; winner_x, loser_x)."),
    ] = None
    single_query: Annotated[
        bool, _option("--single-query", help="Text without query ids is one query.")
    ] = False


@dataclass(frozen=True)
class ReadingOptions(ModelReadingOptions):
    """Data for training, comparing or converting: its width is its own."""

    base: _Base = 1
    n_features: Annotated[
        int | None, _option(help="Number of features; default: the largest index.")
    ] = None
    on_bad_row: _OnBadRow = "error"
    dtype: Annotated[
        str | None, _option(help="float64 or float32 storage; default: as stored, text as float64.")
    ] = None


@dataclass(frozen=True)
class SortOptions(_Group):
    """Data to be rewritten row by row."""

    qid_type: _QidType = "int"
    base: _Base = 1
    on_bad_row: _OnBadRow = "error"
    query: _Query = None


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """``["l2=1e-3", "solver=romma"]`` as a mapping; values are JSON where they can be."""
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise ParameterError(f"--set {pair!r} is not name=value", fix="Write --set l2=1e-3")
        settings[name.strip()] = parse_value(text.strip())
    return settings


def make_ranker(name: str, settings: dict[str, Any]) -> Any:
    """A ranker with parameters; an unknown parameter is an error that lists the known ones."""
    from rankine.rankers.registry import ranker_class

    kind = ranker_class(name)
    known = kind().get_params(deep=False)
    for setting in settings:
        if setting not in known:
            raise ParameterError(
                f"ranker {name!r} has no parameter {setting!r}",
                fix=f"Choose among {', '.join(sorted(known))}",
            )
    # A word such as scale=none is the word where the parameter is a word.
    words = {n: "none" for n, v in settings.items() if v is None and isinstance(known[n], str)}
    return kind(**{**settings, **words})


_dask = panel("Partitions and clusters")


@dataclass(frozen=True)
class ClusterOptions:
    """Where partitions are worked on, and how they are cut."""

    dask: Annotated[
        str | None,
        _dask(
            help="Train on partitions: tcp://host:8786, tls://..., local:N for N processes, "
            "or here for one partition after the other without Dask."
        ),
    ] = None
    repartition: Annotated[
        bool, _dask("--repartition", help="First group the rows by query, into a new file.")
    ] = False
    repartition_to: Annotated[
        str | None, _dask(help="Folder of that file; default: rankine-partitions/ here.")
    ] = None
    partition_mb: Annotated[
        int | None, _dask(help="About the memory of a partition; default 64.")
    ] = None
    timeout: Annotated[
        float | None, _dask(help="Seconds without a finished task that are an error; default 600.")
    ] = None

    def check(self, *, stream: bool) -> None:
        """Refuse what does not go together."""
        if self.dask is None:
            if self.repartition or self.repartition_to is not None:
                raise ParameterError(
                    "--repartition belongs to --dask", fix="Add --dask, or use rankine sort"
                )
            for name in ("partition_mb", "timeout"):
                if getattr(self, name) is not None:
                    raise ParameterError(
                        f"--{name.replace('_', '-')} belongs to --dask", fix="Leave it out"
                    )
            return
        if stream:
            raise ParameterError("--stream and --dask are two ways", fix="Leave one of them out")


@dataclass(frozen=True)
class ClickColumnOptions:
    """Where a click log says what."""

    query: Annotated[str, typer.Option(help="Column that names the list of a row.")] = "session"
    label: Annotated[str, typer.Option(help="Column or formula of the label.")] = "clicked"
    position: Annotated[str, typer.Option(help="Column of positions, from 1.")] = "position"
    search: Annotated[str | None, typer.Option(help="Column of what was searched for.")] = None
    schema: Annotated[str | None, typer.Option(help="TOML file that names these columns.")] = None

    def columns(self, **more: str | None) -> dict[str, Any]:
        """The columns; those that are left at their defaults are as ``--schema`` says."""
        from rankine.logs.schema import read_schema

        given = {**vars(self), **more}
        file = given.pop("schema")
        if file is None:
            return given
        said, usual = read_schema(file), {field.name: field.default for field in fields(self)}
        return {
            name: (getattr(said, name) or value) if value == usual.get(name) else value
            for name, value in given.items()
        }
