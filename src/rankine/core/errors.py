"""The exceptions that rankine raises.

Each has the reason, the location of the problem and a remedy::

    RankineError
    ├── DataError            (ValueError)  bad input data, with file, line and column if available
    │   ├── ParseError                     a line that violates the grammar
    │   ├── FileKindError                  a file of another type than its name or an option states
    │   ├── CompressionError               truncated or corrupt compressed data
    │   ├── EmptyDataError                 no rows
    │   ├── QueryOrderError                a query reappears in a stream, or lacks an id
    │   ├── SchemaError                    missing, mistyped or null columns
    │   ├── LimitError                     a line, index or size above its limit
    │   ├── LabelError                     labels outside the domain of a gain or metric
    │   ├── ChangedDataError               the file changed while it was being read
    │   ├── NoPairsError                   nothing to rank: no query has two different labels
    │   └── OverlapError                   a log with too few displays of what is evaluated
    ├── ParameterError       (ValueError)  a parameter outside its domain
    ├── ModelError           (ValueError)  a model file or model that cannot be used
    │   ├── ModelFormatError               not a model, or a malformed one
    │   ├── DigestError                    the content does not match its digest
    │   ├── ModelVersionError              written by a newer rankine
    │   ├── FeatureMismatchError           model and data have different feature spaces
    │   └── ExportError                    the target cannot express this model
    ├── CheckpointError      (ValueError)  a checkpoint that cannot be resumed
    ├── DivergenceError      (ArithmeticError)  training produced numbers that are not finite
    ├── ClusterError         (RuntimeError)     a cluster that cannot be reached or does not respond
    ├── MissingExtraError    (ImportError) an optional dependency is not installed
    └── IncompatibleVersionError  (ImportError)  a dependency has an untested version
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from rankine.core.safe_text import mask_secrets

__all__ = [
    "ChangedDataError",
    "CheckpointError",
    "ClusterError",
    "CompressionError",
    "DataError",
    "DigestError",
    "DivergenceError",
    "EmptyDataError",
    "ExportError",
    "FeatureMismatchError",
    "FileKindError",
    "IncompatibleVersionError",
    "LabelError",
    "LimitError",
    "MissingExtraError",
    "ModelError",
    "ModelFormatError",
    "ModelVersionError",
    "NoPairsError",
    "OverlapError",
    "ParameterError",
    "ParseError",
    "QueryOrderError",
    "RankineError",
    "SchemaError",
]


class RankineError(Exception):
    """Base class of all errors that rankine raises on purpose.

    Parameters
    ----------
    reason
        What is wrong, in one sentence without a full stop.
    fix
        What the user can do about it, in the imperative.
    parameter
        Name of the Python parameter that caused the error. The message starts with it; the
        command line shows the option of the same name instead.
    file, line, column
        Location of the error. Lines and columns count from 1; ``column`` may also be a column name.
    row
        Number of the row, from 0, if the data were passed as a list of rows.
    """

    code: ClassVar[str] = "error"
    #: Remedy to show when the raising code does not give one.
    default_fix: ClassVar[str] = ""

    def __init__(
        self,
        reason: str,
        *,
        fix: str = "",
        parameter: str | None = None,
        file: str | None = None,
        line: int | None = None,
        column: int | str | None = None,
        row: int | None = None,
    ) -> None:
        # Errors end up in logs and bug reports.
        self.reason = mask_secrets(reason)
        self.fix = mask_secrets(fix or self.default_fix)
        self.parameter = parameter
        self.file = None if file is None else mask_secrets(file)
        self.line = line
        self.column = column
        self.row = row
        # Exception keeps only its positional arguments, so __reduce__ passes the fields on.
        super().__init__(self.reason)

    def __str__(self) -> str:
        location = ":".join(
            str(part) for part in (self.file, self.line, self.column) if part is not None
        )
        prefix = "".join(f"{part}: " for part in (location, self.parameter) if part)
        if self.row is not None:
            prefix += f"row {self.row}: "
        text = f"{prefix}{self.reason} [{self.code}]"
        return f"{text}. {self.fix}" if self.fix else text

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle every field, because worker processes raise these errors too."""
        fields = {
            "fix": self.fix,
            "parameter": self.parameter,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "row": self.row,
        }
        return (_rebuild, (type(self), self.reason, fields))


@contextmanager
def attach_file_to_errors(name: str) -> Iterator[None]:
    """Set ``file`` on errors raised inside the block, unless they name a file."""
    try:
        yield
    except RankineError as error:
        error.file = error.file or mask_secrets(name)
        raise


def _rebuild(kind: type[RankineError], reason: str, fields: dict[str, Any]) -> RankineError:
    return kind(reason, **fields)


class DataError(RankineError, ValueError):
    """Bad input data."""

    code = "data"


class ParseError(DataError):
    """A line that violates the grammar."""

    code = "parse"


class FileKindError(DataError):
    """A file of another type than its name or an option states."""

    code = "file-kind"


class CompressionError(DataError):
    """Truncated or corrupt compressed data."""

    code = "compression"


class EmptyDataError(DataError):
    """No rows at all."""

    code = "empty"


class QueryOrderError(DataError):
    """A query that reappears in a stream, or a row without a query id."""

    code = "query-order"


class SchemaError(DataError, TypeError):
    """Missing, mistyped or null columns; arrays whose shapes do not agree."""

    code = "schema"


class LimitError(DataError):
    """A line, index or size above its limit."""

    code = "limit"


class LabelError(DataError):
    """Labels outside the domain of a gain or metric."""

    code = "label"


class ChangedDataError(DataError):
    """A file that changed between or during passes."""

    code = "changed"


class NoPairsError(DataError):
    """No query holds two different labels: there is nothing to rank."""

    code = "no-pairs"


class OverlapError(DataError):
    """A log with too few displays of the rankings that are to be evaluated."""

    code = "overlap"


class ParameterError(RankineError, ValueError):
    """A parameter outside its domain."""

    code = "parameter"


class ModelError(RankineError, ValueError):
    """A model that cannot be used."""

    code = "model"


class ModelFormatError(ModelError):
    """Not a model file, or a malformed one."""

    code = "model-format"
    default_fix = "Restore the file from a copy, or train the model again"


class DigestError(ModelError):
    """The content of a file does not match the digest stored in it."""

    code = "digest"


class ModelVersionError(ModelError):
    """A model file written in a newer format."""

    code = "model-version"


class FeatureMismatchError(ModelError):
    """Model and data have different feature spaces."""

    code = "feature-mismatch"


class ExportError(ModelError):
    """The target engine cannot express this model."""

    code = "export"


class CheckpointError(RankineError, ValueError):
    """A checkpoint that cannot be resumed."""

    code = "checkpoint"


class DivergenceError(RankineError, ArithmeticError):
    """Training produced numbers that are not finite."""

    code = "divergence"


class ClusterError(RankineError, RuntimeError):
    """A cluster that cannot be reached, lost its scheduler, or made no progress."""

    code = "cluster"


class MissingExtraError(RankineError, ImportError):
    """An optional dependency is not installed."""

    code = "missing-extra"


class IncompatibleVersionError(RankineError, ImportError):
    """A dependency is installed in a version that rankine does not support."""

    code = "incompatible-version"
