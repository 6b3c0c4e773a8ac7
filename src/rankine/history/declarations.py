"""Check declarations of history features, and compile them to what the kernel needs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from rankine.core.errors import ParameterError, RankineError
from rankine.core.specs import History, HistoryFeature
from rankine.data.expressions import Expression, parse_expression
from rankine.history.kernels import AGE, COUNT, LAST, MEAN, RATE

#: Microseconds of the units of durations.
_UNITS = {
    "us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "min": 60 * 10**6, "h": 3600 * 10**6,
    "d": 86400 * 10**6, "w": 7 * 86400 * 10**6,
}  # fmt: skip
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
#: Longest duration: 1,000 years.
_LONGEST = 1000 * 365 * 86400 * 10**6
_KINDS = {"count": COUNT, "rate": RATE, "mean": MEAN, "last": LAST, "age": AGE}
_MAX_BUCKETS = 1024
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(HistoryFeature)}
#: Fields that apply to some kinds only.
_FIELDS_OF = {
    "over": ("rate",),
    "prior": ("rate",),
    "weight": ("mean",),
    "half_life": ("count", "rate", "mean"),
    "window": ("count", "rate", "mean"),
    "buckets": ("count", "rate", "mean"),
}


class FeaturePlan(NamedTuple):
    """What the kernel computes for one feature.

    Attributes
    ----------
    kind
        A kind of ``rankine.history.kernels``.
    by
        Columns of the key.
    first, second
        Amounts that are summed (see ``amounts_of``); None is 1 for each row.
    half_life, bucket, n_buckets, prior, log
        See ``rankine.history.kernels.KeyTable``.
    """

    kind: int
    by: tuple[str, ...]
    first: Amount | None
    second: Amount | None
    half_life: float
    bucket: int
    n_buckets: int
    prior: float
    log: bool


class Amount(NamedTuple):
    """A number of each row that is summed: a formula, a product of two, or an examination.

    Attributes
    ----------
    text
        Unique description.
    formula
        Formula in which missing values are 0; None for the examination probability.
    value
        Formula that is multiplied with it; rows where a value is missing have the amount 0.
    masked_by
        Like ``value``, but only its missing values matter.
    """

    text: str
    formula: Expression | None
    value: Expression | None = None
    masked_by: Expression | None = None


def parse_duration(value: Any, parameter: str) -> int:
    """Return a duration in microseconds: a number of seconds, or a text such as ``"7d"``.

    Examples
    --------
    >>> parse_duration("1.5h", "delay"), parse_duration(10, "delay")
    (5400000000, 10000000)
    """
    microseconds = -1.0
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is not None and match[2] in _UNITS:
            microseconds = float(match[1]) * _UNITS[match[2]]
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        microseconds = float(value) * 10**6
    if not 0 <= microseconds <= _LONGEST:
        raise ParameterError(
            f"{value!r} is not a duration",
            parameter=parameter,
            fix="Write a number of seconds, or a number with a unit of ms, s, m, h, d or w: '7d'",
        )
    return round(microseconds)


def _positive_duration(value: Any, parameter: str) -> int:
    duration = parse_duration(value, parameter)
    if duration == 0:
        raise ParameterError("must be longer than 0", parameter=parameter, fix="Write '7d'")
    return duration


@contextmanager
def _name_entry(name: str) -> Iterator[None]:
    """Name the entry of a declaration in errors about it."""
    try:
        yield
    except RankineError as error:
        field = f"{error.parameter}: " if error.parameter else ""
        raise ParameterError(
            f"[history.{name}]: {field}{error.reason}", parameter="history", fix=error.fix
        ) from error


def read_declarations(history: Any) -> dict[str, HistoryFeature]:
    """Convert declarations from dictionaries, and check each of them."""
    if not isinstance(history, Mapping):
        raise ParameterError(
            f"is {type(history).__name__}, not a mapping of names to declarations",
            parameter="history",
            fix="Write history={'item_ctr': {'rate': 'clicked', 'by': ['item']}}",
        )
    features = {}
    for name, fields in history.items():
        with _name_entry(str(name)):
            features[str(name)] = _convert(fields)
            plan_feature(features[str(name)])
    return features


def _convert(fields: Any) -> HistoryFeature:
    if isinstance(fields, HistoryFeature):
        return fields
    # One column may be written without brackets.
    if isinstance(fields, Mapping) and isinstance(fields.get("by"), str):
        fields = {**fields, "by": [fields["by"]]}
    try:
        return msgspec.convert(fields, HistoryFeature, strict=True)
    except msgspec.ValidationError as error:
        names = ", ".join(HistoryFeature.__struct_fields__)
        raise ParameterError(str(error), fix=f"Its fields are {names}") from error


def plan_feature(feature: HistoryFeature) -> FeaturePlan:
    """Check one declaration, and compile it."""
    try:
        kind = feature.kind
    except ValueError as error:
        raise ParameterError(str(error), fix="Write for example rate = 'clicked'") from error
    if not feature.by or len(set(feature.by)) != len(feature.by):
        raise ParameterError(
            "names no column, or one twice",
            parameter="by",
            fix="Name the columns of the key, such as by = ['product_id']",
        )
    for name, kinds in _FIELDS_OF.items():
        # A field that this kind would ignore is an error, as every option without effect.
        if kind not in kinds and getattr(feature, name) != _DEFAULTS[name]:
            raise ParameterError(
                f"applies to {', '.join(kinds)}, not to {kind}", parameter=name, fix="Leave it out"
            )
    if feature.window is not None and feature.half_life is not None:
        raise ParameterError(
            "cannot be combined with half_life", parameter="window", fix="Use one of them"
        )
    if not (math.isfinite(feature.prior) and feature.prior >= 0):
        raise ParameterError(
            f"{feature.prior} is not a number from 0 on", parameter="prior", fix="Use 20"
        )
    half_life = math.inf
    if feature.half_life is not None:
        half_life = float(_positive_duration(feature.half_life, "half_life"))
    bucket, n_buckets = 0, 0
    if feature.window is not None:
        bucket, n_buckets = _buckets(feature)
    elif feature.buckets != _DEFAULTS["buckets"]:
        raise ParameterError("applies to windows only", parameter="buckets", fix="Leave it out")
    first, second = _amounts(feature, kind)
    return FeaturePlan(
        _KINDS[kind],
        feature.by,
        first,
        second,
        half_life,
        bucket,
        n_buckets,
        feature.prior,
        feature.log,
    )


def _buckets(feature: HistoryFeature) -> tuple[int, int]:
    """Return the microseconds and the number of the buckets of a window."""
    if not 1 <= feature.buckets <= _MAX_BUCKETS:
        raise ParameterError(
            f"{feature.buckets} is not between 1 and {_MAX_BUCKETS}",
            parameter="buckets",
            fix="Use 8",
        )
    window = _positive_duration(feature.window, "window")
    # Buckets begin at multiples of their size since 1970, which must be exact.
    if window % feature.buckets:
        raise ParameterError(
            f"{feature.window!r} is not a whole number of microseconds in each of the "
            f"{feature.buckets} buckets",
            parameter="window",
            fix="Choose a window that the number of buckets divides, such as '14d' with 8",
        )
    return window // feature.buckets, feature.buckets


def _amounts(feature: HistoryFeature, kind: str) -> tuple[Amount | None, Amount | None]:
    """Return the two amounts of a row that a feature sums."""
    formula = _parse(getattr(feature, kind), kind)
    if kind == "rate":
        over: Amount | None = None
        if feature.over == "examination":
            over = Amount("examination", None)
        elif feature.over != "rows":
            over = Amount(feature.over, _parse(feature.over, "over"))
        return Amount(feature.rate or "", formula), over
    if kind == "mean":
        weight = _parse(feature.weight, "weight")
        # The texts are names: equal amounts of several features are computed once.
        product = f"({feature.mean}) * ({feature.weight or 1})"
        mask = f"({feature.weight or 1}) where {feature.mean}"
        return (
            Amount(product, weight, value=formula),
            Amount(mask, weight, masked_by=formula),
        )
    if formula is None:
        return None, None
    return Amount(formula.text, formula), None


def _parse(text: Any, parameter: str) -> Expression | None:
    if not isinstance(text, str):
        return None
    try:
        return parse_expression(text)
    except ParameterError as error:
        raise ParameterError(error.reason, parameter=parameter, fix=error.fix) from error


def plan_features(history: History) -> tuple[FeaturePlan, ...]:
    """Compile all features of a log or a model, and check what they need together."""
    plans = []
    for name, feature in zip(history.names, history.features, strict=True):
        with _name_entry(name):
            plan = plan_feature(feature)
            if feature.kind == "rate" and feature.over == "examination":
                _check_examination(history)
        plans.append(plan)
    return tuple(plans)


def _check_examination(history: History) -> None:
    if history.position is None:
        raise ParameterError(
            "'examination' needs the column of displayed positions",
            parameter="over",
            fix="Name it: position = '...'",
        )
    # Propensities are part of the model: the server must use the same ones.
    if not history.propensity:
        raise ParameterError(
            "'examination' needs the propensity of each position",
            parameter="over",
            fix="Write propensity = [1.0, 0.6, ...] in the schema, or pass --propensity to rankine "
            "train or propensity=estimate_propensity(...) to rankine.logs.scan",
        )
