"""From a raw log to a model: what ``rankine train log.parquet --query ... --label ...`` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.core.specs import LogColumns, OneHot
from rankine.data.dataset import concat
from rankine.data.splits import split_in_order
from rankine.logs.clicks import CoecLabel, coec_formula
from rankine.logs.scan import LogScan, column_names, fit_one_hot, log_spec, scan_log
from rankine.metrics import evaluate_on

if TYPE_CHECKING:
    from rankine.model import LinearModel
    from rankine.solvers.base import Callback


@dataclass(frozen=True)
class LogTraining:
    """The end of a training on a log.

    Attributes
    ----------
    model
        Scores raw rows of the same schema.
    measured
        The ranker's metric on the held-out parts, ``"valid"`` and ``"test"``.
    queries
        Lists of each part.
    nulls
        Missing values of the log, in all columns that were read.
    """

    model: LinearModel
    measured: dict[str, float]
    queries: dict[str, int]
    nulls: int


def parse_split(text: str) -> tuple[float, ...]:
    """Shares of ``"time:9/11,1/11,1/11"``: two or three positive numbers or fractions.

    Examples
    --------
    >>> parse_split("time:0.8,0.2")
    (0.8, 0.2)
    """
    kind, colon, rest = text.partition(":")
    try:
        shares = tuple(float(Fraction(part.strip())) for part in rest.split(","))
    except (ValueError, ZeroDivisionError):
        shares = ()
    good = kind == "time" and colon and len(shares) in (2, 3) and all(s > 0 for s in shares)
    if not good:
        raise ParameterError(
            f"cannot read the split {text!r}", fix="Write it like time:9/11,1/11,1/11"
        )
    return shares


def train_from_log(
    ranker: Any,
    path: Any,
    *,
    query: str,
    label: str,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    one_hot: Sequence[str] = (),
    crosses: Sequence[str] = (),
    hash_bits: int = 20,
    position: str | None = None,
    item: str | None = None,
    search: str | None = None,
    looks: Sequence[float] | None = None,
    columns: Sequence[str] = (),
    split: str | None = None,
    time_column: str | None = None,
    valid: Any = None,
    warm_start: LinearModel | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | None = None,
    every: int = 100_000,
    resume: bool = False,
    missing: str = "zero",
    **options: Any,
) -> LogTraining:
    """Train a ranker on a raw log.

    Parameters
    ----------
    ranker
        An unfitted ranker. One that can be fitted to a stream never holds the log in memory.
    path
        Parquet or Arrow files whose lists stand together.
    query, label
        Column of the list's id; formula of the label, such as ``"clicked + 4*purchased"``, or
        ``"coec"``, ``"coec(formula)"``: clicks over expected clicks, counted in each file by
        itself.
    categorical, numeric, one_hot, crosses
        Columns to hash, to use as numbers, to give a feature per value; groups ``"a*b"`` to hash
        together.
    hash_bits
        The hashed space has 2^hash_bits features, up to 2^26.
    position, columns
        Column of displayed positions (for ``propensity``, ``position_offset`` and coec; default
        ``"position"`` where it is needed); further columns (for ``recall@shown``).
    item, search, looks
        Columns and propensities of coec.
    split, time_column
        ``"time:9/11,1/11,1/11"``: train on the oldest lists, measure on the newer ones. Lists are
        in order of ``time_column``, or of the file.
    valid
        Another log of the same columns to measure on. With ``early_stopping`` the ranker watches
        it, or the second part of the split, during training.
    warm_start
        Model of an earlier log with the same columns.
    callbacks, checkpoint, every, resume
        As for ``fit``.
    missing, options
        As for ``scan_log``.
    """
    used = [*categorical, *numeric, *one_hot, *(n for c in crosses for n in c.split("*"))]
    ignored = sorted(column_names(path) - {name.strip() for name in used})
    spec = log_spec(
        numeric=numeric,
        categorical=categorical,
        one_hot=_one_hot(path, one_hot, query, warm_start, options),
        crosses=crosses,
        hash_bits=hash_bits,
        ignored=ignored,
    )
    _check_warm(warm_start, spec)

    formula = coec_formula(label)
    if formula is not None and (item is None or split is not None):
        raise ParameterError(
            "coec counts the clicks of each item over all the training data",
            fix="Name the item column, and hold out another log as valid instead of a split",
        )
    needed = formula or ranker.propensity is not None or ranker.position_offset is not None
    where = position or ("position" if needed else None)

    def read(files: Any, extra: Sequence[str]) -> LogScan:
        target: Any = label
        if formula is not None:
            target = CoecLabel(
                files,
                formula,
                () if looks is None else looks,
                query=query,
                position=str(where),
                item=str(item),
                search=search,
            )
        return scan_log(
            files,
            spec,
            query=query,
            label=target,
            position=where,
            columns=[*columns, *extra],
            missing=missing,
            **options,
        )

    log = read(path, () if time_column is None else (time_column,))
    parts = _parts(log, split, time_column)
    if valid is not None:
        if "valid" in parts:
            raise ParameterError(
                "the split has a part to measure on, and valid was given too",
                fix="Leave out one of them",
            )
        parts["valid"] = read(valid, ())
    train = parts.pop("train")
    ranker.fit(
        train if "stream" in ranker.can.fit else concat(list(train.blocks())),
        eval_set=None if ranker.early_stopping is None else parts.get("valid"),
        coef_init=warm_start,
        callbacks=callbacks,
        checkpoint=checkpoint,
        every=every,
        resume=resume,
    )
    ranker.encoding_ = log
    measured, queries = {}, {"train": int(ranker.training_["queries"])}
    for name, part in parts.items():
        measured[name], queries[name] = _measure(ranker, part)
    model: LinearModel = ranker.to_model()
    if split is not None:
        model = replace(model, provenance={**model.provenance, "measured": measured})
    return LogTraining(model, measured, queries, log.nulls or 0)


def _parts(log: LogScan, split: str | None, time_column: str | None) -> dict[str, Any]:
    """The log, or its parts in order of time."""
    if split is None:
        return {"train": log}
    shares = parse_split(split)
    stream: Any = log
    cut = split_in_order(stream, shares, time_column)
    return dict(zip(("train", "valid", "test")[: len(shares)], cut, strict=True))


def _one_hot(
    path: Any, names: Sequence[str], query: str, start: LinearModel | None, options: Any
) -> tuple[OneHot, ...]:
    """Values of the one-hot columns: a warm start keeps those of its model."""
    if not names:
        return ()
    if start is not None and start.transforms and isinstance(start.transforms[0], LogColumns):
        return start.transforms[0].one_hot
    return fit_one_hot(path, names, query=query, **options)


def _check_warm(start: LinearModel | None, spec: LogColumns) -> None:
    if start is None:
        return
    found = next((s for s in start.transforms if isinstance(s, LogColumns)), None)
    same = found is not None and _read_columns(found) == _read_columns(spec)
    if not same:
        raise FeatureMismatchError(
            "the model to start from encodes other columns than this training",
            fix="Name the same columns and hash_bits as when it was trained",
        )


def _read_columns(spec: LogColumns) -> LogColumns:
    """The spec without the columns that it does not read."""
    return msgspec.structs.replace(spec, ignored=())


def _measure(ranker: Any, part: Any) -> tuple[float, int]:
    """Mean metric over a stream, and its number of lists."""
    values = [
        np.asarray(evaluate_on(block, metric=ranker.metric, model=ranker, per_query=True))
        for block in part.blocks()
    ]
    every = np.concatenate([np.zeros(0), *values])
    judged = every[~np.isnan(every)]
    return float(judged.mean()) if len(judged) else float("nan"), len(every)
