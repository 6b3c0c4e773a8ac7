"""Options for reading data: files of features, raw logs and comparisons."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._groups import option_names, option_panel, reject_options
from rankine.cli._options import split_list
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.logs.schema import LogSchema
    from rankine.model import LinearModel

_option = option_panel("Reading")
_log = option_panel("Raw logs")
_Format = Annotated[
    str | None,
    _option(
        "--format",
        help="Read this format: letor, parquet, arrow, csv, json (lines) or npz "
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
#: Options of feature files that have no meaning for raw logs.
_FEATURE_FILE_OPTIONS = (
    "base", "qid_type", "feature_names", "group", "single_query", "n_features", "dtype", "features",
)  # fmt: skip


class _ReadOptions:
    """Base of the groups that become keyword arguments of ``rankine.load``."""

    def options(self, **more: Any) -> dict[str, Any]:
        """Return keyword arguments of ``rankine.load``, without options that are not given."""
        not_for_load = (*option_names(LogOptions), "pairs")
        values = {name: value for name, value in vars(self).items() if name not in not_for_load}
        values |= more
        values = {name: value for name, value in values.items() if value is not None}
        if "columns" in values:
            values["columns"] = split_list(values["columns"])
        return {"progress": _console.verbosity() >= 0, **values}


@dataclass(frozen=True)
class LogOptions:
    """Columns of a raw log by their use."""

    schema: Annotated[
        str | None,
        _log(
            help="TOML file with the use of each column; "
            "rankine inspect LOG --schema proposes one."
        ),
    ] = None
    categorical: Annotated[
        str | None, _log(help="Hash the values of these columns, comma-separated.")
    ] = None
    numeric: Annotated[str | None, _log(help="Use these columns as numbers.")] = None
    one_hot: Annotated[
        str | None, _log(help="Make one feature of each value of these columns.")
    ] = None
    binned: Annotated[
        str | None, _log(help="Make one feature of each range of these numeric columns.")
    ] = None
    cross: Annotated[
        list[str] | None, _log(help="Hash these columns together, a*b; repeatable.")
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
        _log("--time", "--time-column", help="Time column (default: order in the files)."),
    ] = None
    split: Annotated[
        str | None,
        _log(
            "--split",
            help="Train on the oldest lists and evaluate on newer ones: time:9/11,1/11,1/11.",
        ),
    ] = None

    @property
    def raw(self) -> bool:
        """Whether a schema, or any feature column of a raw log, is named."""
        column_lists = (self.categorical, self.numeric, self.one_hot, self.binned)
        return self.schema is not None or bool(self.cross) or any(map(split_list, column_lists))


@dataclass(frozen=True)
class ModelReadingOptions(LogOptions, _ReadOptions):
    """Options for data that an existing model reads; the model knows its features."""

    format: _Format = None
    base: Annotated[
        int | None,
        _option(help="Index of the first feature in text files (default: that of the model)."),
    ] = None
    qid_type: _QidType = "int"
    feature_names: Annotated[str | None, _option(help="File with one feature name per line.")] = (
        None
    )
    label: _Label = None
    query: _Query = None
    columns: _Columns = None
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
        **more: Any,
    ) -> Any:
        """Read the data to a ``Dataset``, or open a stream of them.

        Parameters
        ----------
        model
            Existing model that reads the data.
        like
            Log or model whose features the data shall have.
        columns
            Further columns to keep.
        log_schema
            Result of ``log_schema``, where the caller needed it before.
        more
            Further options of reading.
        """
        from rankine.logs.source import scan

        is_log = self.raw or any(_is_of_log(each) for each in (model, like))
        self._check_column_options(is_log=is_log)
        if self.pairs:
            return self._open_pairs(paths, model if like is None else like, stream=stream)
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
        if log_schema is None:
            options = self._log_read_options(more)
        else:
            options = self._log_read_options(more, with_fields=False)
        options["columns"] = (*options.get("columns", ()), *columns)
        cuts = self.cuts if like is None else None
        log = scan(paths, schema=log_schema or self._schema_file(), like=like, cuts=cuts, **options)
        return log if stream else log.load()
