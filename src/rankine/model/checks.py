"""Check the parts of a model against each other, whether a file or a program built it.

Everything that sizes an array or ends a loop is checked here, before any of it is used.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from rankine.core.edits import Edit
from rankine.core.errors import ModelError
from rankine.core.log_summary import LogSummary
from rankine.core.specs import Bins, Grids, History, ListRange, LogColumns, MissingValues, RunScores

#: Largest number of entries of all tables of a model; they are expanded to an array.
MAX_CELLS = 1 << 24
#: Largest number of columns that are made dense to score a row: of tables, and of fused retrievers.
MAX_TABLE_COLUMNS = 1 << 14
MAX_RUNS = 1 << 10
#: Largest number of rounds that refine tables.
MAX_ROUNDS = 100
#: Transforms that a scorer runs together, in order.
_COMBINATIONS = (
    (LogColumns, History, MissingValues, ListRange),
    (LogColumns, History, Bins, Grids),
    (RunScores,),
)

_Strength = Annotated[float, msgspec.Meta(ge=0)] | None
Spec = TypeVar("Spec", bound=msgspec.Struct)


class Certificate(msgspec.Struct, frozen=True):
    """Entries of a certificate that a training continues from; it may have others."""

    smooth: _Strength = None
    pair_smooth: _Strength = None
    anchor: _Strength = None
    rounds: Annotated[int, msgspec.Meta(ge=0, le=MAX_ROUNDS)] = 0


class SavedProgress(msgspec.Struct, frozen=True):
    """Entries of a model's provenance that programs read, not only people."""

    n_iter: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0
    certificate: Certificate = Certificate()
    log: LogSummary | None = None
    #: Packed hashes of the ids of training lists (``rankine.data.list_ids``).
    lists: str | None = None
    #: Entries of curves that people fixed, in the order of the edits.
    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        """Check the packed hashes; binascii.Error is a ValueError."""
        if len(base64.b64decode(self.lists or "", validate=True)) % 8:
            raise ValueError("the hashes of the training lists are cut")


class SavedSchema(msgspec.Struct, frozen=True):
    """Entries of the schema of a log that are read before the schema is checked as a whole."""

    query: str | None = None
    categorical: tuple[str, ...] | None = ()
    history: dict[str, Any] | None = None


class Parameters(msgspec.Struct, frozen=True):
    """Parameters that programs read."""

    log: SavedSchema = SavedSchema()


def read_progress(provenance: Mapping[str, Any]) -> SavedProgress:
    """Return the entries of a provenance that programs read."""
    return _convert(provenance, SavedProgress, "provenance")


def _convert(saved: Mapping[str, Any], kind: type[Spec], name: str) -> Spec:
    try:
        return msgspec.convert(saved, kind, strict=True)
    except msgspec.ValidationError as error:
        reason = f"the {name} in the model cannot be read: {error}"
        raise ModelError(reason, fix="Train the model again") from error


def check_parts(
    transforms: Sequence[msgspec.Struct],
    n_features: int,
    parameters: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> None:
    """Raise unless transforms can run together and fit the features and the log's summary."""
    _convert(parameters, Parameters, "parameters")
    _check_transforms(transforms, n_features)
    log, columns = read_progress(provenance).log, find_spec(transforms, LogColumns)
    if log is None or columns is None:
        return
    numeric = {*columns.numeric, *(field.column for field in columns.binned)}
    for name, summary in log.columns.items():
        if name not in columns.columns or (name in numeric) != (summary.cuts is not None):
            raise ModelError(
                f"the summary of the training log does not fit column {name[:100]!r}",
                fix="Train the model again",
            )


def _misfit(reason: str) -> ModelError:
    return ModelError(reason, fix="Use the version of rankine that saved the model")


def find_spec(transforms: Sequence[msgspec.Struct], kind: type[Spec]) -> Spec | None:
    """Return the transform of a kind, or None."""
    return next((spec for spec in transforms if isinstance(spec, kind)), None)


def _check_transforms(transforms: Sequence[msgspec.Struct], n_features: int) -> None:
    kinds = [type(spec) for spec in transforms]
    combined = any(set(kinds) <= set(combination) for combination in _COMBINATIONS)
    combined &= History not in kinds or LogColumns in kinds
    columns, bins = find_spec(transforms, LogColumns), find_spec(transforms, Bins)
    grids, missing = find_spec(transforms, Grids), find_spec(transforms, MissingValues)
    if len(set(kinds)) != len(kinds) or not combined or (grids is not None and bins is None):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise _misfit(f"the scorer cannot run these transforms together: {names}")
    width = n_features
    if bins is not None:
        width = len(bins.cuts)
        _check_tables(bins, grids, n_features)
    if find_spec(transforms, RunScores) is not None and n_features > MAX_RUNS:
        raise _misfit(f"{n_features} retrievers are fused; the limit is {MAX_RUNS:,}")
    if columns is not None:
        if columns.tables != (bins is not None) or columns.n_features != width:
            raise _misfit(f"the encoding of a log has {columns.n_features} columns, not {width}")
        if bins is not None:
            _check_values(columns, bins)
    if missing is not None and missing.columns and missing.columns[-1] >= n_features:
        raise _misfit(f"missing values of column {missing.columns[-1]} of {n_features}")


def _check_tables(bins: Bins, grids: Grids | None, n_features: int) -> None:
    """Check that grids fit the cells of their columns, and weights the cells of all tables."""
    if len(bins.cuts) > MAX_TABLE_COLUMNS:
        raise _misfit(
            f"there are tables of {len(bins.cuts)} columns; the limit is {MAX_TABLE_COLUMNS:,}"
        )
    cells = bins.n_cells
    n_cells = sum(cells)
    if grids is not None:
        axes = grids.axes
        if len({axis.column for axis in axes}) != len(axes) or len(set(grids.pairs)) != len(
            grids.pairs
        ):
            raise _misfit("a column or a pair of columns is listed twice in the grids")
        for axis in axes:
            # A linear column has no cells, and so no axis.
            if axis.column >= len(cells) or len(axis.cells) != max(cells[axis.column], 1):
                raise _misfit(f"an axis of a grid does not fit column {axis.column}")
        n_cells += sum(grids.n_cells)
    if n_cells > MAX_CELLS:
        raise _misfit(f"the tables have {n_cells} entries; the limit is {MAX_CELLS:,}")
    if n_cells + len(bins.linear) != n_features:
        raise _misfit(
            f"the tables and linear columns have {n_cells + len(bins.linear)} entries for "
            f"{n_features} weights"
        )


def _check_values(columns: LogColumns, bins: Bins) -> None:
    """Check that the cells of a categorical column hold numbers of its values."""
    for j, field in enumerate(columns.one_hot, len(columns.numeric)):
        numbers = bins.cuts[j] if j in bins.unordered else ()
        if any(not 0 <= number < len(field.values) or number % 1 for number in numbers):
            raise _misfit(f"a cell of column {field.column[:100]!r} has no value")
