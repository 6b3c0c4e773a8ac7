"""Describe how each column of a raw log is used: in Python, in a TOML file or by options.

A ``LogSchema`` names the columns. The values of one-hot columns and the cuts of binned columns are
measured on a log; every model of the log contains the schema and these measurements.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from rankine.core.checks import reject_sets
from rankine.core.errors import (
    FeatureMismatchError,
    FileKindError,
    LimitError,
    ParameterError,
    SchemaError,
    attach_file_to_errors,
)
from rankine.core.specs import (
    MAX_CUTS,
    MAX_HASH_BITS,
    Binned,
    History,
    HistoryFeature,
    LogColumns,
    OneHot,
    check_cuts,
)
from rankine.core.stores import read_bytes
from rankine.data.dataset import first_lists
from rankine.data.formats import choose_format, reader_of
from rankine.data.open import scan as scan_files
from rankine.data.options import ReadOptions
from rankine.data.sources import find_sources
from rankine.data.splits import query_times
from rankine.history.declarations import parse_duration, plan_features, read_declarations
from rankine.history.rows import to_microseconds
from rankine.transforms.bins import quantile_cuts
from rankine.transforms.categories import category_texts, texts_in_order
from rankine.transforms.log_columns import columns_of, numeric_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rankine.data.dataset import Dataset
    from rankine.data.sources import Source
    from rankine.model import LinearModel

#: Maximum number of values of a one-hot column.
MAX_VALUES = 10_000
#: Longest list on one line of a TOML file.
_TOML_WIDTH = 50
#: Fields that decide what a model computes; the others decide how a file is read.
_FEATURES = (
    "numeric", "categorical", "one_hot", "binned", "crosses", "hash_bits", "bins",
    "history", "delay", "refresh", "forget", "time_unit", "propensity",
)  # fmt: skip
#: Fields that have no meaning without history features.
_HISTORY_FIELDS = ("outcome_time", "time_unit", "delay", "refresh", "forget", "propensity")


class LogSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Columns of a raw log by their use.

    Attributes
    ----------
    query
        Column with the id of a row's list; the rows of a list must be consecutive.
    label
        Formula over columns (``"clicked + 4*purchased"``); ``"coec"`` or ``"coec(formula)"`` for
        clicks over expected clicks, which are counted separately in each log; or None.
    numeric, categorical
        Columns to use as numbers; columns to hash.
    one_hot, binned
        Columns with a feature for each value; columns with a feature for each range of values.
    crosses
        Groups of columns, such as ``"brand*size"``, that are hashed together.
    hash_bits
        The hashed space has 2^hash_bits features, up to 2^26.
    bins
        Maximum number of ranges of a binned column. Each range covers about the same number of
        rows of the first 10,000 lists.
    position, time, item, search
        Columns of the displayed position (from 1), of the time of a row, of the item and of what
        was searched for.
    weight
        Column of row weights.
    columns
        Other columns to keep, for metrics such as ``recall@shown`` or for margins.
    history
        Numeric features computed from earlier rows, by name (see ``HistoryFeature``).
    outcome_time
        Column of the time of a row's outcomes, where it differs from ``time``.
    time_unit
        Unit of times that are numbers: ``"s"``, ``"ms"`` or ``"us"``.
    delay, refresh
        For ``history``: how long outcomes take to arrive, and how often they become visible.
    forget
        For ``history``: duration after which ``last`` and ``age`` forget a key.
    propensity
        For rates over ``"examination"``: examination probability by position, from 1; the last
        applies to all later positions.
    """

    query: str
    label: str | None = None
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    binned: tuple[str, ...] = ()
    crosses: tuple[str, ...] = ()
    hash_bits: int = 20
    bins: int = 32
    position: str | None = None
    time: str | None = None
    item: str | None = None
    search: str | None = None
    weight: str | None = None
    columns: tuple[str, ...] = ()
    history: dict[str, HistoryFeature] = {}
    outcome_time: str | None = None
    time_unit: Literal["s", "ms", "us"] = "s"
    delay: str | float = 0.0
    refresh: str | float = 0.0
    forget: str | float = "365d"
    propensity: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raise if features are unordered, named twice or absent."""
        reject_sets(**msgspec.structs.asdict(self))
        self._check_history()
        if not 1 <= self.hash_bits <= MAX_HASH_BITS:
            raise ParameterError(
                f"{self.hash_bits} is not between 1 and {MAX_HASH_BITS}",
                parameter="hash_bits",
                fix="Use 20, which suits most logs",
            )
        try:
            spec = self.spec()
        except ValueError as error:
            raise ParameterError(str(error), fix="Name every column once") from error
        if not spec.columns:
            raise ParameterError(
                "no column of the log is named as a feature",
                fix="Name numeric, categorical, one_hot or binned columns",
            )
        if not 2 <= self.bins <= 255:
            raise ParameterError(
                f"{self.bins} is not between 2 and 255",
                parameter="bins",
                fix="Use 32, which suits most columns",
            )

    def _check_history(self) -> None:
        """Raise if history features lack a time, or have the name of a column."""
        if not self.history:
            defaults = {field.name: field.default for field in msgspec.structs.fields(self)}
            for name in _HISTORY_FIELDS:
                if getattr(self, name) != defaults[name]:
                    raise ParameterError(
                        "applies to history features only",
                        parameter=name,
                        fix="Leave it out, or declare a feature in [history.NAME]",
                    )
            return
        if self.time is None:
            raise ParameterError(
                "history features need the column of times",
                parameter="time",
                fix="Name it, such as time = 'ts'",
            )
        for name in ("delay", "refresh", "forget"):
            parse_duration(getattr(self, name), name)
        roles = (self.query, self.time, self.outcome_time, self.position, self.item, self.search)
        read_columns = {*roles, *self.numeric, *self.columns}
        read_columns.update(name for feature in self.history.values() for name in feature.by)
        for name in self.history:
            if name in read_columns:
                raise ParameterError(
                    f"[history.{name}] has the name of a column",
                    parameter="history",
                    fix="Choose another name",
                )

    @classmethod
    def make(cls, fields: Mapping[str, Any], base: LogSchema | None = None) -> LogSchema:
        """Build a schema from keyword arguments; empty ones (None, ()) are taken from ``base``."""
        fields = {name: value for name, value in fields.items() if value not in (None, (), [], {})}
        if base is not None and not fields:
            return base
        reject_sets(**fields)
        if "crosses" in fields:
            joined = []
            for cross in fields["crosses"]:
                reject_sets(crosses=cross)
                if isinstance(cross, str):
                    joined.append(cross)
                else:
                    joined.append("*".join(cross))
            fields["crosses"] = joined
        merged: dict[str, Any] = {}
        if base is not None:
            merged = msgspec.to_builtins(base)
        # A column that gets a new use loses its use in ``base``.
        uses = ("numeric", "categorical", "one_hot", "binned")
        moved = {name for use in uses for name in fields.get(use, ())}
        for use in uses:
            if use in merged:
                merged[use] = [name for name in merged[use] if name not in moved]
        merged |= fields
        if "query" not in merged:
            raise ParameterError(
                "a raw log needs a query column, which names the list of each row",
                parameter="query",
                fix="Name the column, such as session_id",
            )
        schema = _convert(merged, "the schema of a log")
        for name, columns, uses_of_option in (
            ("hash_bits", (*schema.categorical, *schema.crosses), "categorical or crosses"),
            ("bins", schema.binned, "binned"),
        ):
            if name in fields and not columns:
                raise ParameterError(
                    f"applies only to columns that are {uses_of_option}",
                    parameter=name,
                    fix="Name such columns, or leave it out",
                )
        return schema

    def spec(
        self,
        one_hot: Sequence[OneHot] | None = None,
        binned: Sequence[Binned] | None = None,
        ignored: Sequence[str] = (),
    ) -> LogColumns:
        """Return how columns become features, with the measured values and cuts."""
        if one_hot is None:
            one_hot = [OneHot(name, ()) for name in self.one_hot]
        if binned is None:
            binned = [Binned(name, ()) for name in self.binned]
        return LogColumns(
            self.numbers,
            tuple(one_hot),
            self.categorical,
            tuple(tuple(map(str.strip, cross.split("*"))) for cross in self.crosses),
            self.hash_bits,
            tuple(ignored),
            tuple(binned),
        )

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns to use as numbers, history features among them."""
        return (*self.numeric, *(name for name in self.history if name not in self.binned))

    def without_history(self) -> LogSchema:
        """Return the schema of a log whose history features are columns of its files."""
        defaults = {field.name: field.default for field in msgspec.structs.fields(self)}
        changes = {name: defaults[name] for name in _HISTORY_FIELDS}
        return msgspec.structs.replace(self, numeric=self.numbers, history={}, **changes)

    @property
    def uses_examination(self) -> bool:
        """Whether a history feature needs propensities."""
        return any(feature.over == "examination" for feature in self.history.values())

    def with_propensity(self, other: LogSchema) -> LogSchema:
        """Return the schema with the propensities of another one where it needs and has none."""
        if self.propensity or not self.uses_examination:
            return self
        return msgspec.structs.replace(self, propensity=other.propensity)

    def history_spec(self) -> History | None:
        """Return how history features are computed; None without any."""
        if not self.history or self.time is None:
            return None
        # One order, because the state of a log is compared with the schema of another one.
        names = sorted(self.history)
        history = History(
            tuple(names),
            tuple(self.history[name] for name in names),
            self.query,
            self.time,
            self.time_unit,
            self.outcome_time,
            self.position,
            self.delay,
            self.refresh,
            self.forget,
            self.propensity,
        )
        plan_features(history)
        return history

    @property
    def features(self) -> dict[str, Any]:
        """Fields that decide what a model computes."""
        return {name: getattr(self, name) for name in _FEATURES}

    def to_toml(self) -> str:
        """Format as a file that ``read_schema`` reads."""
        fields = msgspec.to_builtins(self)
        history = fields.pop("history", {})
        lines = _toml_lines(fields)
        for name, feature in history.items():
            lines += ["", f"[history.{_toml_key(name)}]", *_toml_lines(feature)]
        return "\n".join(lines) + "\n"


def _toml_lines(fields: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, value in fields.items():
        text = json.dumps(value)
        # Tables cannot be broken, lists can.
        if isinstance(value, list | tuple) and len(name) + len(text) > _TOML_WIDTH:
            entries = [f"    {json.dumps(entry)},\n" for entry in value]
            text = f"[\n{''.join(entries)}]"
        lines.append(f"{_toml_key(name)} = {text}")
    return lines


def _toml_key(name: str) -> str:
    """Return a name as a key of TOML, quoted where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _convert(fields: Any, what: str, file: str | None = None) -> LogSchema:
    if "history" in fields:
        fields = {**fields, "history": read_declarations(fields["history"])}
    try:
        return msgspec.convert(fields, LogSchema, strict=True)
    except msgspec.ValidationError as error:
        cause = error.__cause__
        if isinstance(cause, ParameterError):
            raise cause from error
        names = ", ".join(LogSchema.__struct_fields__)
        raise SchemaError(f"{what}: {error}", file=file, fix=f"Its fields are {names}") from error


def read_schema(path: str | Path) -> LogSchema:
    """Read a schema from a TOML file, such as ``rankine inspect log.parquet --schema`` prints."""
    file = str(path)
    try:
        fields = tomllib.loads(read_bytes(path).decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SchemaError(
            f"not a schema: {error}", file=file, fix="Write TOML, such as query = 'session_id'"
        ) from error
    if "query" not in fields:
        raise SchemaError("the schema names no query column", file=file, fix="Add query = '...'")
    with attach_file_to_errors(file):
        return _convert(fields, "not a schema", file)


def schema_of(model: LinearModel) -> LogSchema | None:
    """Return the schema of the log that a model was trained on; None where it reads features."""
    spec = columns_of(model)
    if spec is None:
        return None
    saved = {k: v for k, v in model.parameters.get("log", {}).items() if v is not None}
    saved.pop("missing", None)  # models of 0.1 store this rule of their rankers here
    hashed = saved.get("categorical", ())  # tables store hashed columns as one-hot columns
    fields = {
        "query": "qid",
        "numeric": [name for name in spec.numeric if name not in saved.get("history", {})],
        "categorical": list(spec.hashed),
        "one_hot": [field.column for field in spec.one_hot if field.column not in hashed],
        "binned": [field.column for field in spec.binned],
        "crosses": ["*".join(cross) for cross in spec.crosses],
        "hash_bits": spec.hash_bits,
    }
    return _convert({**fields, **saved}, "the model's log")


def check_same_features(
    schema: LogSchema, model_schema: LogSchema, owner: str = "the model"
) -> None:
    """Raise if a schema gives other features than the schema of a model."""
    for name, expected in model_schema.features.items():
        value = getattr(schema, name)
        same = value == expected
        # The order of columns does not matter here: the model's own spec decides the order.
        if isinstance(value, tuple):
            same = set(value) == set(expected)
        if not same:
            raise FeatureMismatchError(
                f"is {_format_field(value)} here and {_format_field(expected)} in {owner}",
                parameter=name,
                fix="Leave the options of columns out, or name the columns of the model "
                "(rankine inspect MODEL --schema)",
            )


def _format_field(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "empty"
    return str(value)


def log_sources(path: Any) -> list[Source]:
    """Return the files or frames of a log; it is read more than once, so pipes are refused."""
    sources = find_sources(path)
    for source in sources:
        if not source.rereadable:
            fix = "Save it to a file first"
            if source.table is not None:
                fix = "Pass pyarrow.table(reader), which can be read again, or a Parquet file"
            raise FileKindError(
                "a raw log is read several times, and this can be read only once",
                file=source.name,
                fix=fix,
            )
    return sources


def column_names(path: Any) -> list[str]:
    """Read the names of the columns in the first file."""
    source = log_sources(path)[0]
    reader = reader_of(choose_format(source, None, source.head()))
    read_names = getattr(reader, "column_names", None)
    if read_names is None:
        raise FileKindError(
            "not a table of columns",
            file=source.name,
            fix="Raw logs are Parquet, Arrow, CSV or JSON lines",
        )
    return list(read_names(source, ReadOptions.make()))


# ------------------------------------------------------------------------------ measurements
@contextmanager
def locate_row_errors(block: Dataset) -> Iterator[None]:
    """Add the file and line to errors about a row of a block."""
    try:
        yield
    except SchemaError as error:
        if error.row is None or block.lines is None:
            raise
        raise SchemaError(
            f"{error.reason}; training and serving need one type in every log",
            fix=error.fix,
            file=block.sources[-1] if block.sources else None,
            line=int(block.lines[error.row]),
            column=error.column,
        ) from error


def vocabulary(data: Dataset, names: Sequence[str]) -> dict[str, list[str]]:
    """Collect the values of categorical columns, in order of first appearance."""
    with locate_row_errors(data):
        return {name: list(filter(None, texts_in_order(data.columns, name))) for name in names}


def one_hot_values(
    vocabularies: Iterable[Mapping[str, Sequence[str]]], names: Sequence[str]
) -> tuple[OneHot, ...]:
    """Join the vocabularies of the parts of a log, in order of first appearance."""
    # Dictionaries serve as ordered sets.
    joined: dict[str, dict[str, None]] = {name: {} for name in names}
    for part in vocabularies:
        for name, values in part.items():
            joined[name].update(dict.fromkeys(values))
            if len(joined[name]) > MAX_VALUES:
                raise LimitError(
                    f"column {name!r} has more than {MAX_VALUES} values",
                    fix="Hash it instead (categorical)",
                    column=name,
                )
    for name in names:
        if not joined[name]:
            raise _no_values(name)
    return tuple(OneHot(name, tuple(values)) for name, values in joined.items())


def _no_values(name: str) -> SchemaError:
    return SchemaError(
        f"column {name!r} contains no value", column=name, fix="Leave the column out"
    )


def frequent_texts(blocks: Iterable[Dataset], names: Sequence[str]) -> tuple[OneHot, ...]:
    """Find the most frequent texts of columns in the first lists, at most one per table cell."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    if names:
        for block in first_lists(blocks):
            with locate_row_errors(block):
                for name, count in counts.items():
                    count.update(category_texts(block.columns[name], name))
    fields = []
    for name, count in counts.items():
        del count[""]
        texts = sorted(text for text, _ in count.most_common(MAX_CUTS))
        fields.append(OneHot(name, tuple(texts)))
    return tuple(fields)


def read_cuts(cuts: Any, binned: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Check cuts by column, from a mapping or a JSON file."""
    file = None
    if isinstance(cuts, str | Path):
        file = str(cuts)
        try:
            cuts = json.loads(read_bytes(file).decode())
        except (OSError, ValueError) as error:
            raise SchemaError(
                f"not a file of cuts: {error}", file=file, fix='Write {"price": [1.0, 2.5]}'
            ) from error
    try:
        checked = msgspec.convert(cuts or {}, dict[str, tuple[float, ...]])
        for column in checked.values():
            check_cuts(column)
    except (msgspec.ValidationError, ValueError) as error:
        raise SchemaError(
            f"not cuts of columns: {error}", file=file, fix="Give increasing numbers by column"
        ) from error
    unused = [name for name in checked if name not in binned]
    if unused:
        raise ParameterError(
            f"cuts are given for column {unused[0]!r}, which is not binned",
            parameter="cuts",
            fix="Add the column to binned, or leave its cuts out",
        )
    return checked


def measure_cuts(
    blocks: Iterable[Dataset],
    names: Sequence[str],
    bins: int,
    fixed: Mapping[str, Sequence[float]] | None = None,
) -> tuple[Binned, ...]:
    """Measure quantiles of columns on the rows of the first lists, except for ``fixed`` cuts.

    The result does not depend on how the rows are split into blocks.
    """
    cuts = {name: tuple(values) for name, values in (fixed or {}).items()}
    # An empty array first, so that concatenating works for a log without rows.
    columns: dict[str, list[Any]] = {name: [np.zeros(0)] for name in names if name not in cuts}
    if columns:
        for block in first_lists(blocks):
            with locate_row_errors(block):
                for name, values in columns.items():
                    values.append(numeric_values(block.columns[name], name))
    for name, values in columns.items():
        numbers = np.concatenate(values)
        distinct, counts = np.unique(numbers[np.isfinite(numbers)], return_counts=True)
        if len(distinct) == 0:
            raise _no_values(name)
        cuts[name] = quantile_cuts(distinct, counts.astype(np.int64), bins)
    return tuple(Binned(name, cuts[name]) for name in names)


# ------------------------------------------------------------------------------ a first proposal
_QUERY = ("session_id", "session", "query_id", "qid", "search_id", "request_id", "list_id", "query")
#: Usual names of columns, by field of a schema.
_ROLES = {
    "position": ("position", "pos", "rank"),
    "time": ("ts", "time", "timestamp", "date", "day"),
    "item": ("item", "item_id", "product_id", "product", "docid", "doc_id", "document_id", "sku"),
    "search": ("search", "query_text", "search_text", "search_term", "keywords"),
    "outcome_time": ("outcome_ts", "outcome_time", "clicked_at", "click_time", "click_ts"),
}
#: Usual names of columns of users, whose earlier clicks are features.
_USER = ("user_id", "user", "customer_id", "customer", "visitor_id", "client_id")
#: Usual names of outcomes, and their weights in a label.
_OUTCOMES = {
    "clicked": 1, "click": 1, "item_click": 1, "label": 1, "added": 2, "add_to_cart": 2,
    "purchased": 4, "purchase": 4, "bought": 4,
}  # fmt: skip
#: Columns of few values of which a user's clicks are counted, at most (NDCG@10 .0055 higher on four
#: generated markets whose users prefer brands).
_MAX_TASTES = 3
#: Microseconds of a day.
_DAY = 86400 * 10**6
#: Columns with up to this number of values get a feature per value, which every export of raw
#: columns expresses; others are hashed.
_MAX_ONE_HOT = 200
#: Columns with more distinct values per row than this are ids and left out.
_ID_SHARE = 0.5
#: Numbers have a long tail if the 99th percentile of their sizes is larger than this many medians.
#: On three generated logs such columns gain .002 to .014 NDCG@10 from ranges.
_LONG_TAIL = 5.0
#: They also do if the largest is this many times the 99th percentile, as prices in another currency
#: are: such numbers would decide how the column is scaled (NDCG@10 .016 lower on generated hotels).
_OUTLIER = 20.0
#: Ends of the names of columns whose whole numbers are ids, and no quantities.
_ID_NAMES = re.compile(
    r"(^|_)(id|ids|uuid|guid|key|code|sku|asin|ean|upc|item|product|user|zip)$", re.IGNORECASE
)


def propose_schema(path: Any, **options: Any) -> tuple[LogSchema, dict[str, str]]:
    """Propose a schema for a log by the names, types and values of its columns.

    Columns that are constant within lists rank nothing by themselves and are no features; those
    with few values are kept (``columns``), for crosses and for propensities by context. Returns the
    schema and a reason for each column. Only the first rows are read, so check the proposal before
    you train with it.
    """
    names = column_names(path)
    query = next((name for name in _QUERY if name in names), None)
    if query is None:
        raise SchemaError(
            f"no column has a usual name for the id of a list; the columns are "
            f"{', '.join(names[:20])}",
            fix="Write a schema by hand: query = '...' names the column",
        )
    names = [name for name in names if name != query]
    raw = scan_files(
        path,
        query=query,
        label=None,
        docid=None,
        weight=None,
        position=None,
        features=(),
        columns=tuple(names),
        **options,
    )
    block = next(iter(raw.blocks()))
    varying = {name for name in names if varies_within_lists(block, name)}
    fields: dict[str, Any] = {"query": query}
    for field, usual_names in _ROLES.items():
        fields[field] = next((name for name in usual_names if name in names), None)
    # Beside an id of the list, "query" is the text of the search, which is the same for a list.
    if fields["search"] is None and "query" in names and "query" not in varying:
        fields["search"] = "query"
    outcomes = [name for name in _OUTCOMES if name in names]
    terms = [f"{_OUTCOMES[name]}*{name}" for name in outcomes]
    fields["label"] = " + ".join(term.removeprefix("1*") for term in terms) or None
    history = _propose_history(block, fields, outcomes)
    not_features = {*outcomes, *(fields[role] for role in _ROLES)}
    if not history:
        # What was clicked before is clicked again: without its rate, the item is a feature itself.
        not_features.discard(fields["item"])
    reasons: dict[str, str] = {}
    for name in names:
        values = block.columns[name]
        if name in not_features or values.dtype.kind == "M":
            continue
        use, reasons[name] = _propose_use(values, name, constant=name not in varying)
        if use is not None:
            fields.setdefault(use, []).append(name)
    if history:
        history["history"] |= _propose_tastes(history["history"], fields.get("one_hot", ()))
    # Only history features use the time of an outcome.
    del fields["outcome_time"]
    return LogSchema.make({**fields, **history}), reasons


def varies_within_lists(data: Dataset, name: str) -> bool:
    """Return whether rows of one list have different values in a column; missing ones are equal."""
    columns: Any = data.columns
    coded = columns.coded(name)
    values = columns[name] if coded is None else coded.codes
    if values.dtype.kind not in "biuf":
        values = np.unique(values.astype(str), return_inverse=True)[1]
    values, starts = data.queries.gather(values), data.queries.starts
    same = values[1:] == values[:-1]
    if values.dtype.kind == "f":
        same |= np.isnan(values[1:]) & np.isnan(values[:-1])
    same[starts[1:-1] - 1] = True  # a row and the next one, which begins another list
    return not bool(same.all())


def _propose_history(
    block: Dataset, fields: Mapping[str, Any], outcomes: Sequence[str]
) -> dict[str, Any]:
    """Propose history features for a log in order of time that has clicks and users."""
    time, item = fields["time"], fields["item"]
    user = next((name for name in _USER if name in block.columns), None)
    clicks = next((name for name in outcomes if name != "label"), None)
    if time is None or item is None or user is None or clicks is None:
        return {}
    times = block.columns[time]
    unit = "s"
    if times.dtype.kind in "iuf":
        unit = _guess_time_unit(float(np.max(times)))
    try:
        microseconds = to_microseconds(times, unit, time)
    except SchemaError:
        return {}
    # Dates do not say which of the lists of a day came first.
    if times.dtype.kind in "MT" and not (microseconds % _DAY).any():
        return {}
    first_times = query_times(block, microseconds)
    if (first_times[1:] < first_times[:-1]).any():
        return {}
    history: dict[str, Any] = {
        "item_rate": {"rate": clicks, "by": [item], "half_life": "30d"},
        "user_item_count": {"count": clicks, "by": [user, item], "half_life": "30d", "log": True},
    }
    if fields["search"] is not None:
        by = [fields["search"], item]
        history["search_item_rate"] = {"rate": clicks, "by": by, "half_life": "30d"}
    proposal: dict[str, Any] = {"history": history}
    if unit != "s":
        proposal["time_unit"] = unit
    if fields["outcome_time"] is not None:
        proposal["outcome_time"] = fields["outcome_time"]
    return proposal


def _propose_tastes(history: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Propose how often the user clicked items with the same value, such as the same brand."""
    count = history["user_item_count"]
    user = count["by"][0]
    return {f"user_{name}_count": {**count, "by": [user, name]} for name in columns[:_MAX_TASTES]}


def _guess_time_unit(latest: float) -> str:
    """Return the unit in which a number is a time of our days."""
    for unit, limit in (("s", 1e11), ("ms", 1e14)):
        if latest < limit:
            return unit
    return "us"


def _propose_use(values: Any, name: str, *, constant: bool) -> tuple[str | None, str]:
    """Propose the use of a column, with the reason."""
    whole = values.dtype.kind in "iu"
    if values.dtype.kind == "O" and {True, False, None}.issuperset(values.tolist()):
        values = values.astype(np.float64)  # booleans of which some are missing
    is_number = values.dtype.kind in "biuf" and not (whole and _ID_NAMES.search(name))
    if is_number and not constant and _has_long_tail(values):
        return "binned", "numbers with a long tail: a weight for each of some ranges"
    if is_number and not constant:
        return "numeric", "numbers"
    if is_number:
        return None, "constant within lists, so it ranks nothing by itself: left out"
    texts = category_texts(values, name)
    n_distinct = len(set(texts) - {""})
    reason = f"{n_distinct:,} values in {len(texts):,} rows"
    if n_distinct <= 1 or (n_distinct > _ID_SHARE * len(texts) and not constant):
        return None, f"{reason}: left out"
    if constant:
        reason += (
            ", constant within lists, so it ranks nothing by itself: cross it with a column of the "
            "items"
        )
        if n_distinct <= _MAX_ONE_HOT:
            return "columns", f"{reason}, or use it as the context of propensities"
        return None, reason
    if n_distinct <= _MAX_ONE_HOT:
        return "one_hot", reason
    return "categorical", f"{reason}: hashed, which exports to engines do not express"


def _has_long_tail(values: Any) -> bool:
    """Return whether some of a column's numbers are far larger than the others."""
    sizes = np.abs(values[np.nonzero(np.nan_to_num(values))].astype(np.float64))
    if len(sizes) == 0:
        return False
    median, large = np.quantile(sizes, [0.5, 0.99])
    return bool(large > _LONG_TAIL * median or sizes.max() > _OUTLIER * large)
