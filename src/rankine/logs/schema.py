"""What the columns of a raw log are for: said once, in Python, in a TOML file or by options.

A ``LogSchema`` names the columns. Values of one-hot columns and cuts of binned ones are measured on
a log; the schema and what was measured stand in every model of that log.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from rankine.core.checks import reject_sets
from rankine.core.errors import (
    FeatureMismatchError,
    FileKindError,
    LimitError,
    ParameterError,
    SchemaError,
)
from rankine.core.specs import MAX_CUTS, Binned, LogColumns, OneHot, check_cuts
from rankine.data.dataset import first_lists
from rankine.data.formats import choose_format, reader_of
from rankine.data.open import scan as scan_files
from rankine.data.options import ReadOptions
from rankine.data.sources import find_sources
from rankine.transforms.bins import quantile_cuts
from rankine.transforms.categories import category_texts, texts_in_order
from rankine.transforms.log_columns import numeric_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rankine.data.dataset import Dataset
    from rankine.data.sources import Source
    from rankine.model import LinearModel

#: Most values of a one-hot column.
MAX_VALUES = 10_000
#: Fields that say what a model computes; the others say how a file is read.
_FEATURES = ("numeric", "categorical", "one_hot", "binned", "crosses", "hash_bits", "bins")


class LogSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Columns of a raw log by their use.

    Attributes
    ----------
    query
        Column that names the list of a row; the rows of a list stand together.
    label
        Formula over columns (``"clicked + 4*purchased"``); ``"coec"`` or ``"coec(formula)"``, which
        are clicks over expected clicks, counted in each log by itself; or None.
    numeric, categorical, one_hot, binned, crosses
        Columns to use as numbers, to hash, to give a feature per value, to give a feature per range
        of values; groups ``"a*b"`` to hash together.
    hash_bits
        The hashed space has 2^hash_bits features, up to 2^26.
    bins
        Ranges of a binned column, at most; they hold about as many rows each of the first 10,000
        lists.
    position, time, item, search
        Columns of the displayed position (from 1), of the time of a row, of the item and of what
        was searched for.
    weight
        Column of row weights.
    columns
        Further columns to keep (for ``recall@shown`` or margins).
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

    def __post_init__(self) -> None:
        """Refuse columns that are named twice, in no order, or none."""
        reject_sets(**msgspec.structs.asdict(self))
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
            raise ParameterError(f"bins={self.bins} is not between 2 and 255", fix="32 serve most")

    @classmethod
    def make(cls, given: Mapping[str, Any], before: LogSchema | None = None) -> LogSchema:
        """A schema of keyword arguments; what is not given (None, empty) is as ``before``."""
        fields = {name: value for name, value in given.items() if value not in (None, (), [])}
        reject_sets(**fields)
        crosses = fields.get("crosses", ())
        for cross in crosses:
            reject_sets(crosses=cross)
        if crosses:
            fields["crosses"] = [c if isinstance(c, str) else "*".join(c) for c in crosses]
        start = {} if before is None else msgspec.to_builtins(before)
        # A column that is given another use has it in place of the one before.
        lists = ("numeric", "categorical", "one_hot", "binned")
        moved = {name for key in lists for name in fields.get(key, ())}
        for key in lists:
            if key in start and key not in fields:
                start[key] = [name for name in start[key] if name not in moved]
        if "query" not in start and "query" not in fields:
            raise ParameterError(
                "the column that names the list of a row is not known",
                fix="Name it: query='session_id'",
            )
        made = _convert({**start, **fields}, "the schema of a log")
        for name, columns, shaped in (
            ("hash_bits", (*made.categorical, *made.crosses), "categorical or crosses"),
            ("bins", made.binned, "binned"),
        ):
            if name in fields and not columns:
                raise ParameterError(
                    f"{name}={fields[name]} shapes columns that are {shaped}, and there are none",
                    fix="Leave it out",
                )
        return made

    def spec(
        self,
        one_hot: Sequence[OneHot] | None = None,
        binned: Sequence[Binned] | None = None,
        ignored: Sequence[str] = (),
    ) -> LogColumns:
        """How columns become features, with the values and cuts that were measured."""
        crosses = tuple(tuple(n.strip() for n in cross.split("*")) for cross in self.crosses)
        values = tuple(OneHot(name, ()) for name in self.one_hot)
        cells = tuple(Binned(name, ()) for name in self.binned)
        return LogColumns(
            self.numeric,
            values if one_hot is None else tuple(one_hot),
            self.categorical,
            crosses,
            self.hash_bits,
            tuple(ignored),
            cells if binned is None else tuple(binned),
        )

    @property
    def features(self) -> dict[str, Any]:
        """What a model of this schema computes from."""
        return {name: getattr(self, name) for name in _FEATURES}

    def to_toml(self) -> str:
        """As a file that ``read_schema`` reads."""
        plain = msgspec.to_builtins(self)
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in plain.items())


def _convert(plain: Any, what: str, file: str | None = None) -> LogSchema:
    try:
        return msgspec.convert(plain, LogSchema, strict=True)
    except msgspec.ValidationError as error:
        cause = error.__cause__
        if isinstance(cause, ParameterError):
            raise cause from error
        fields = ", ".join(LogSchema.__struct_fields__)
        raise SchemaError(f"{what}: {error}", file=file, fix=f"Its fields are {fields}") from error


def read_schema(path: str | Path) -> LogSchema:
    """The schema of a TOML file, such as ``rankine inspect log.parquet --schema`` prints."""
    file = str(path)
    try:
        plain = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SchemaError(
            f"not a schema: {error}", file=file, fix="Write TOML, such as query = 'session_id'"
        ) from error
    if "query" not in plain:
        raise SchemaError("the schema names no query column", file=file, fix="Add query = '...'")
    return _convert(plain, "not a schema", file)


def columns_of(model: LinearModel) -> LogColumns | None:
    """How a model encodes raw columns; None where its rows are features already."""
    return next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)


def schema_of(model: LinearModel) -> LogSchema | None:
    """The schema of the log that a model was trained on; None where it reads features."""
    spec = columns_of(model)
    if spec is None:
        return None
    noted = dict(model.parameters.get("log", {}))
    noted.pop("missing", None)  # models of 0.1 say there what their rankers say now
    hashed = noted.get("categorical") or ()  # which tables hold as they hold one_hot columns
    own = {
        "query": "qid",
        "numeric": list(spec.numeric),
        "categorical": list(spec.hashed),
        "one_hot": [one.column for one in spec.one_hot if one.column not in hashed],
        "binned": [field.column for field in spec.binned],
        "crosses": ["*".join(cross) for cross in spec.crosses],
        "hash_bits": spec.hash_bits,
    }
    return _convert({**own, **{k: v for k, v in noted.items() if v is not None}}, "the model's log")


def check_same_features(given: LogSchema, own: LogSchema, whose: str = "the model") -> None:
    """Refuse a schema that makes other features than a model's."""
    for name, value in own.features.items():
        here = getattr(given, name)
        same = set(here) == set(value) if isinstance(value, tuple) else here == value
        if not same:
            shown = ", ".join(map(str, here)) if isinstance(here, tuple) else here
            theirs = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            raise FeatureMismatchError(
                f"{name} is {shown or 'empty'} here and {theirs or 'empty'} in {whose}: "
                "it encodes other columns",
                fix="Leave the options of columns out, or name those of the model "
                "(rankine inspect MODEL --schema)",
            )


def log_sources(path: Any) -> list[Source]:
    """The files of a log, which is read more than once."""
    found = find_sources(path)
    for source in found:
        if not source.rereadable:
            raise FileKindError(
                "a raw log is read from files, not from a pipe",
                file=source.name,
                fix="Save it to a file first",
            )
    return found


def column_names(path: Any) -> list[str]:
    """Columns of the first of the given files, by the guarded readers."""
    source = log_sources(path)[0]
    reader = reader_of(choose_format(source, None, source.head()))
    names = getattr(reader, "column_names", None)
    if names is None:
        raise FileKindError(
            "not a table of columns",
            file=source.name,
            fix="Raw logs are Parquet, Arrow, CSV or JSON lines",
        )
    return list(names(source, ReadOptions.make()))


# ------------------------------------------------------------------------------ what is measured
@contextmanager
def placed(block: Dataset) -> Iterator[None]:
    """Errors about a row of a block name its file and its row there."""
    try:
        yield
    except SchemaError as error:
        row, colon, rest = error.reason.removeprefix("row ").partition(": ")
        if colon and row.isdigit() and block.lines is not None:
            raise SchemaError(
                f"{rest}; training and serving need one type in every log",
                fix=error.fix,
                file=block.sources[-1] if block.sources else None,
                line=int(block.lines[int(row)]),
                column=error.column,
            ) from error
        raise


def vocabulary(data: Dataset, names: Sequence[str]) -> dict[str, list[str]]:
    """Values of categorical columns, in order of first appearance."""
    with placed(data):
        return {
            name: [text for text in texts_in_order(data.columns, name) if text] for name in names
        }


def one_hot_values(parts: Iterable[Mapping[str, Sequence[str]]], names: Sequence[str]) -> Any:
    """The values of all parts of a log, in order of first appearance."""
    found: dict[str, dict[str, None]] = {name: {} for name in names}
    for part in parts:
        for name, values in part.items():
            found[name].update(dict.fromkeys(values))
            if len(found[name]) > MAX_VALUES:
                raise LimitError(
                    f"column {name!r} has more than {MAX_VALUES} values",
                    fix="Hash it instead (categorical)",
                    column=name,
                )
    for name in names:
        if not found[name]:
            raise SchemaError(f"column {name!r} holds no value", column=name, fix="Leave it out")
    return tuple(OneHot(name, tuple(values)) for name, values in found.items())


def frequent_texts(blocks: Iterable[Dataset], names: Sequence[str]) -> tuple[OneHot, ...]:
    """The most frequent texts of columns in the first lists, as many as a table has cells."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for block in first_lists(blocks) if names else ():
        with placed(block):
            for name, found in counts.items():
                found.update(category_texts(block.columns[name], name))
    for found in counts.values():
        del found[""]
    most = {name: found.most_common(MAX_CUTS) for name, found in counts.items()}
    return tuple(OneHot(name, tuple(sorted(t for t, _ in own))) for name, own in most.items())


def read_cuts(given: Any, binned: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Cuts by column, from a mapping or a JSON file."""
    file = str(given) if isinstance(given, str | Path) else None
    if file is not None:
        try:
            given = json.loads(Path(file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SchemaError(
                f"not a file of cuts: {error}", file=file, fix='Write {"price": [1.0, 2.5]}'
            ) from error
    try:
        cuts = msgspec.convert(given or {}, dict[str, tuple[float, ...]])
        for column in cuts.values():
            check_cuts(column)
    except (msgspec.ValidationError, ValueError) as error:
        raise SchemaError(
            f"not cuts of columns: {error}", file=file, fix="Give increasing numbers by column"
        ) from error
    unused = [name for name in cuts if name not in binned]
    if unused:
        raise ParameterError(
            f"cuts are given for column {unused[0]!r}, which is not binned",
            fix="Name it in binned (--binned), or leave its cuts out",
        )
    return cuts


def measure_cuts(
    blocks: Iterable[Dataset],
    names: Sequence[str],
    bins: int,
    known: Mapping[str, Sequence[float]] | None = None,
) -> tuple[Binned, ...]:
    """Cuts of columns on the rows of the first lists, however the blocks are cut, or as known."""
    given = {name: tuple(cuts) for name, cuts in (known or {}).items()}
    parts: dict[str, list[Any]] = {name: [] for name in names if name not in given}
    for block in first_lists(blocks) if parts else ():
        with placed(block):
            for name, values in parts.items():
                values.append(numeric_values(block.columns[name], name))
    for name, values in parts.items():
        numbers = np.concatenate([np.zeros(0), *values])
        distinct, counts = np.unique(numbers[np.isfinite(numbers)], return_counts=True)
        if len(distinct) == 0:
            raise SchemaError(f"column {name!r} holds no value", column=name, fix="Leave it out")
        given[name] = quantile_cuts(distinct, counts.astype(np.int64), bins)
    return tuple(Binned(name, given[name]) for name in names)


# ------------------------------------------------------------------------------ a first proposal
_QUERY = ("session_id", "session", "query_id", "qid", "search_id", "request_id", "list_id", "query")
_ITEM = ("item", "item_id", "product_id", "product", "docid", "doc_id", "document_id", "sku")
_SEARCH = ("search", "query_text", "search_text", "keywords")
_POSITION = ("position", "pos", "rank")
_TIME = ("ts", "time", "timestamp", "date", "day")
#: What users did, and what it is worth in a label.
_OUTCOMES = {"clicked": 1, "click": 1, "label": 1, "added": 2, "purchased": 4, "bought": 4}
#: Few values have a feature each, more are hashed, nearly one per row is an id.
_FEW, _ID_SHARE = 50, 0.5


def propose_schema(path: Any, **options: Any) -> tuple[LogSchema, dict[str, str]]:
    """A schema for a log by the names, types and cardinalities of its columns, with the reasons.

    Only the first rows are read. It is a proposal: read it before you train by it.
    """
    names = column_names(path)
    query = next((name for name in _QUERY if name in names), None)
    if query is None:
        raise SchemaError(
            f"no column is called like a list's id; there are {', '.join(names[:20])}",
            fix="Write a schema by hand: query = '...' names the column",
        )
    rest = tuple(name for name in names if name != query)
    raw = scan_files(
        path,
        query=query,
        label=None,
        docid=None,
        weight=None,
        position=None,
        features=(),
        columns=rest,
        **options,
    )
    block = next(iter(raw.blocks()))
    uses: dict[str, str] = {}
    fields: dict[str, Any] = {"query": query}
    for field, known in (
        ("position", _POSITION), ("time", _TIME), ("item", _ITEM), ("search", _SEARCH)
    ):  # fmt: skip
        fields[field] = next((name for name in known if name in rest), None)
    outcomes = [name for name in _OUTCOMES if name in rest]
    weighed = [f"{_OUTCOMES[n]}*{n}" if _OUTCOMES[n] > 1 else n for n in outcomes]
    fields["label"] = " + ".join(weighed) or None
    roles = {fields[field] for field in ("position", "time", "item", "search")}
    for name in rest:
        values = block.columns[name]
        if name in roles or name in outcomes or values.dtype.kind == "M":
            continue
        use, why = _use(values, name)
        uses[name] = why
        if use:
            fields.setdefault(use, []).append(name)
    return LogSchema.make(fields), uses


def _use(values: Any, name: str) -> tuple[str | None, str]:
    """What a column may serve for, and why."""
    if values.dtype.kind in "iuf":
        return "numeric", "numbers"
    texts = category_texts(values, name)
    distinct = len(set(texts) - {""})
    told = f"{distinct:,} values in {len(texts):,} rows"
    if distinct <= 1 or distinct > _ID_SHARE * len(texts):
        return None, f"{told}: left out"
    return ("one_hot" if distinct <= _FEW else "categorical"), told
