"""Metrics from text: ``[mode:]name[@cutoff][:option=value ...]``."""

from __future__ import annotations

import re
from typing import Any

from rankine.core.errors import ParameterError
from rankine.metrics.metric import OPTIONS, Metric
from rankine.metrics.modes import MODES

__all__ = ["parse_metric"]

_HEAD = re.compile(r"(?P<name>[A-Za-z][\w-]*)(?:@(?P<cutoff>[^\s@:=]+))?")
_NUMBERS: dict[str, Any] = {"threshold": float, "max_label": int, "persistence": float}


def parse_metric(text: str | Metric) -> Metric:
    """Read a metric's text form; a Metric passes through.

    Examples
    --------
    >>> str(parse_metric("NDCG@10"))
    'ndcg@10'
    >>> parse_metric("letor3:ndcg@10").discount
    'letor'
    >>> parse_metric("ndcg@10:gain=linear:ties=expected").gain
    'linear'
    """
    if isinstance(text, Metric):
        return text
    parts = str(text).strip().split(":")
    mode = parts.pop(0) if parts[0] in MODES and len(parts) > 1 else None
    head = _HEAD.fullmatch(parts[0])
    if head is None:
        raise ParameterError(
            f"cannot read the metric {text!r}",
            fix='Write it like "ndcg@10", "map", "letor3:ndcg@10" or "ndcg@10:gain=linear"',
        )
    options = dict(_option(part, str(text)) for part in parts[1:])
    return Metric(head["name"], _cutoff(head["cutoff"]), mode, **options)


def _cutoff(text: str | None) -> int | str | None:
    if text is None:
        return None
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else text


def _option(part: str, text: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or name not in OPTIONS:
        raise ParameterError(
            f"cannot read {part!r} in the metric {text!r}",
            fix=f"Options are {', '.join(f'{option}=...' for option in OPTIONS)}",
        )
    try:
        return name, _NUMBERS.get(name, str)(value.strip())
    except ValueError:
        raise ParameterError(
            f"{name}={value} in the metric {text!r} is not a number", fix="Write a number"
        ) from None
