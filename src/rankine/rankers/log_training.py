"""From a raw log to a model: what ``rankine train log.parquet --query ... --label ...`` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.core.specs import LogColumns, OneHot
from rankine.data.dataset import row_scores
from rankine.data.splits import split_in_order
from rankine.model.weights import PackedNames
from rankine.rankers.log_data import LogScan, column_names, fit_one_hot, log_spec, scan_log
from rankine.rankers.log_probes import log_probes
from rankine.solvers.progressive import Progressive

if TYPE_CHECKING:
    from rankine.model import LinearModel
    from rankine.solvers.base import Callback

__all__ = ["LogTraining", "parse_split", "train_from_log"]


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
    """

    model: LinearModel
    measured: dict[str, float]
    queries: dict[str, int]


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
    columns: Sequence[str] = (),
    split: str | None = None,
    time_column: str | None = None,
    warm_start: LinearModel | None = None,
    checkpoint: str | None = None,
    every: int = 100_000,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    missing: str = "zero",
    **options: Any,
) -> LogTraining:
    """Train a ranker on a raw log.

    Parameters
    ----------
    ranker
        An unfitted ranker. ``ElasticRanker`` and others with ``fit_stream`` never hold the log in
        memory.
    path
        Parquet or Arrow files whose lists stand together.
    query, label
        Column of the list's id; formula of the label, such as ``"clicked + 4*purchased"``.
    categorical, numeric, one_hot, crosses
        Columns to hash, to use as numbers, to give a feature per value; groups ``"a*b"`` to hash
        together.
    hash_bits
        The hashed space has 2^hash_bits features, up to 2^26.
    position, columns
        Column of displayed positions (for ``propensity``); further columns (for ``recall@shown``).
    split, time_column
        ``"time:9/11,1/11,1/11"``: train on the oldest lists, measure on the newer ones. Lists are
        in order of ``time_column``, or of the file.
    warm_start
        Model of an earlier log with the same columns.
    checkpoint, every, resume, callbacks
        As for ``ElasticRanker.fit_stream``.
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
    extra = [*columns, *(() if time_column is None else (time_column,))]
    log = scan_log(
        path,
        spec,
        query=query,
        label=label,
        position=position,
        columns=extra,
        missing=missing,
        **options,
    )
    parts: dict[str, Any] = {"train": log}
    if split is not None:
        names = ("train", "valid", "test") if split.count(",") == 2 else ("train", "valid")
        shares = parse_split(split)
        stream: Any = log
        parts = dict(zip(names, split_in_order(stream, shares, time_column), strict=True))
    _fit(ranker, parts["train"], warm_start, checkpoint, every, resume, callbacks)
    measured, queries = {}, {"train": int(ranker.training_["queries"])}
    for name in list(parts)[1:]:
        measured[name], queries[name] = _measure(ranker, parts[name])
    note = {"query": query, "label": label, "position": position, "missing": missing}
    return LogTraining(log_model(ranker, log, note, measured), measured, queries)


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
    same = found is not None and replaced(found) == replaced(spec)
    if not same:
        raise FeatureMismatchError(
            "the model to start from encodes other columns than this training",
            fix="Name the same columns and hash_bits as when it was trained",
        )


def replaced(spec: LogColumns) -> LogColumns:
    """The spec without the columns that it does not read."""
    import msgspec

    return msgspec.structs.replace(spec, ignored=())


def _fit(
    ranker: Any,
    scan: Any,
    start: LinearModel | None,
    checkpoint: str | None,
    every: int,
    resume: bool,
    callbacks: Sequence[Callback],
) -> None:
    """Stream where the ranker can; only ElasticRanker keeps checkpoints and starts from models."""
    from rankine.rankers.elastic import ElasticRanker

    if isinstance(ranker, ElasticRanker):
        ranker.fit_stream(
            scan,
            coef_init=start,
            callbacks=callbacks,
            checkpoint=checkpoint,
            every=every,
            resume=resume,
        )
        return
    if checkpoint is not None or resume:
        raise ParameterError(
            f"{type(ranker).__name__} keeps no checkpoints", fix="Use the elastic ranker"
        )
    if hasattr(ranker, "fit_stream") and start is None:
        ranker.fit_stream(scan, callbacks=callbacks)
        return
    from rankine.data.dataset import concat

    data = concat(list(scan.blocks()))
    ranker.fit(data, coef_init=None if start is None else start.to_dense(), callbacks=callbacks)


def _measure(ranker: Any, part: Any) -> tuple[float, int]:
    """Mean metric over a stream and its number of lists."""
    mean = Progressive(ranker.metric, fair_ties=False)
    lists = 0
    for block in part.blocks():
        scores = row_scores(ranker.scaling_.apply(block).X, ranker.coef_)
        mean.add(block, scores, None)
        lists += block.n_queries
    return mean.value, lists


def log_model(
    ranker: Any, log: LogScan, note: dict[str, Any], measured: dict[str, float]
) -> LinearModel:
    """The fitted model with its columns, the names of its weights and rows to test it by."""
    model: LinearModel = ranker.to_model()
    names = log.weight_names(model.indices.tolist())
    return replace(
        model,
        transforms=(log.spec, *model.transforms),
        parameters={**model.parameters, "log": note},
        provenance={**model.provenance, **({"measured": measured} if measured else {})},
        probes=log_probes(ranker, log.spec, names),
        names=PackedNames.pack(names),
    )
