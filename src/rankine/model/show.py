"""Show models and explanations as dictionaries, text and HTML; names from files are escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.safe_text import (
    Html,
    html_table,
    join,
    listed,
    name_of,
    printable,
    small_bar,
    tag,
)
from rankine.core.specs import encode_transforms
from rankine.model.bundle import ModelBundle
from rankine.model.explain import Explanation
from rankine.model.linear import LinearModel
from rankine.model.tables import find_tables


def summary(model: LinearModel, top: int = 20) -> dict[str, Any]:
    """Return size, norms, the ``top`` largest weights (of tables: ranges) and the training."""
    model_kind, largest = "linear", _largest_weights(model, top)
    tables = find_tables(model)
    if tables is not None:
        model_kind, ranges = "additive", tables.ranges()
        rows = [{"name": name, "weight": size} for name, size in ranges[:top]]
        largest = {"n_tables": len(ranges), "top_weights": rows}
    return {
        "kind": model_kind,
        **_metadata(model),
        "zero_percent": round(100 * (1 - model.nnz / max(model.n_features, 1)), 3),
        "l1_norm": float(np.abs(model.values).sum()),
        "l2_norm": float(np.sqrt(np.square(model.values).sum())),
        "probes": 0 if model.probes is None else len(model.probes.rows),
        **largest,
    }


def _largest_weights(model: LinearModel, top: int) -> dict[str, Any]:
    order = np.argsort(-np.abs(model.values), kind="stable")[:top]
    names = model.weight_names
    return {
        "top_weights": [
            {"name": names[k], "index": int(model.indices[k]), "weight": float(model.values[k])}
            for k in order.tolist()
        ]
    }


def _metadata(model: LinearModel | ModelBundle) -> dict[str, Any]:
    return {
        "digest": model.digest,
        "n_features": model.n_features,
        "nnz": model.nnz,
        "named": model.names is not None,
        "base": model.base,
        "metric": model.metric,
        "transforms": encode_transforms(model.transforms),
        "parameters": dict(model.parameters),
        "provenance": dict(model.provenance),
    }


def bundle_summary(bundle: ModelBundle, top: int = 20) -> dict[str, Any]:
    """Return the size of a bundle and of its first ``top`` topics."""
    sizes = np.diff(bundle.starts).tolist()
    return {
        "kind": "bundle",
        **_metadata(bundle),
        "n_topics": len(bundle),
        "topics": [
            {"topic": topic, "nnz": nnz}
            for topic, nnz in zip(bundle.topics.strings[:top], sizes[:top], strict=True)
        ],
    }


#: Largest length of a list that the text of a summary prints in full.
_MAX_LISTED = 5
#: Number of weights and topics in HTML.
TOP = 8
_POSITIVE_COLOUR, _NEGATIVE_COLOUR = "#2f6fab", "#c2570c"


def model_html(model: LinearModel) -> str:
    """Render size, metric, ranker, digest and the largest weights or tables as HTML."""
    names, values = model.weight_names, model.values
    tables = find_tables(model)
    if tables is not None:
        ranges = tables.ranges()
        names, values = tuple(name for name, _ in ranges), np.array([size for _, size in ranges])
    rows: list[tuple[Any, Any]] = [
        ("weights", f"{model.nnz:,} of {model.n_features:,} features"),
        ("trained by", name_of(model.parameters.get("ranker") or "unknown", 60)),
        ("metric", name_of(model.metric or "unknown", 60)),
        ("transforms", ", ".join(type(spec).__name__ for spec in model.transforms) or "none"),
        ("heaviest weights", weights_html(names, values)),
        ("digest", model.digest[:16]),
    ]
    return html_table("rankine.LinearModel", rows)


def bundle_html(bundle: ModelBundle) -> str:
    """Render the number of models and features and the first topics as HTML."""
    rows: list[tuple[Any, Any]] = [
        ("models", f"{len(bundle):,}"),
        ("weights", f"{bundle.nnz:,} over {bundle.n_features:,} features"),
        ("topics", listed(bundle, TOP)),
        ("digest", bundle.digest[:16]),
    ]
    return html_table("rankine.ModelBundle", rows)


def weights_html(names: Any, values: NDArray[np.float64]) -> Html:
    """Render the largest weights with a bar each."""
    order = np.argsort(-np.abs(values), kind="stable")[:TOP].tolist()
    if not order:
        return join(["none"])
    largest = abs(float(values[order[0]])) or 1.0
    lines = [
        [
            tag("br") if k else None,
            name_of(names[j], 40),
            f" {values[j]:+.4g} ",
            small_bar(
                abs(float(values[j])) / largest,
                _NEGATIVE_COLOUR if values[j] < 0 else _POSITIVE_COLOUR,
            ),
        ]
        for k, j in enumerate(order)
    ]
    remaining = None
    if len(values) > TOP:
        remaining = [tag("br"), f"and {len(values) - TOP:,} more"]
    return join([lines, remaining])


def explanation_text(explanation: Explanation, limit: int | None = 10) -> str:
    """Format an explanation as aligned columns, with a line for the omitted terms and the total."""
    head, body = _cells(explanation, limit)
    widths = [max(len(row[c]) for row in [head, *body]) for c in range(len(head))]
    lines = []
    for row in [head, *body]:
        # Names are left-aligned, numbers right-aligned.
        numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *numbers]).rstrip())
    return "\n".join(lines)


def _cells(explanation: Explanation, limit: int | None) -> tuple[list[str], list[list[str]]]:
    pair = explanation.pair
    head = ["feature", "weight", "value", "contribution"]
    if pair:
        head = ["feature", "weight", "a", "b", "contribution"]
    listed = explanation.contributions[:limit]
    body = []
    for term in listed:
        numbers = [term.weight, term.value]
        if pair:
            numbers.append(term.other)
        body.append(
            [
                printable(term.where or term.name, 60),
                *("" if number is None else f"{number:.6g}" for number in numbers),
                f"{term.contribution:+.6g}",
            ]
        )
    blank = [""] * (len(head) - 2)
    hidden = explanation.contributions[len(listed) :]
    if hidden:
        amount = math.fsum(term.contribution for term in hidden)
        body.append([f"({len(hidden)} more)", *blank, f"{amount:+.6g}"])
    label = "score"
    if pair:
        label = "score of a - score of b"
    body.append([label, *blank, f"{explanation.total:+.6g}"])
    return head, body


def _flatten(metadata: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """List names and values; mappings are listed entry by entry, with names like ``trace.gap``."""
    entries: list[tuple[str, Any]] = []
    for key, value in metadata.items():
        if isinstance(value, Mapping):
            entries += [(f"{key}.{name}", inner) for name, inner in _flatten(value)]
        else:
            entries.append((str(key), value))
    return entries


def summary_text(data: dict[str, Any]) -> str:
    """Format a summary (``model.summary()``) as lines of text."""
    lines = [
        f"{data['kind']} model, {data['nnz']:,} of {data['n_features']:,} features weighted",
        f"digest      {data['digest']}",
    ]
    if data.get("metric"):
        lines.append(f"metric      {printable(data['metric'])}")
    for spec in data["transforms"]:
        fields = ", ".join(f"{key}={value}" for key, value in spec.items() if key != "type")
        lines.append(f"transform   {printable(spec['type'])} {printable(fields)}".rstrip())
    for section in ("parameters", "provenance"):
        for key, value in _flatten(data[section]):
            # Recorded curves would fill the screen; --json and reports show them in full.
            text = str(value)
            if isinstance(value, (list, tuple)) and len(value) > _MAX_LISTED:
                text = f"{len(value)} values, the last {value[-1]}"
            lines.append(f"{section:<11} {printable(key)} = {printable(text)}")
    if "topics" in data:
        lines.append("")
        width = max((len(printable(row["topic"], 40)) for row in data["topics"]), default=0)
        lines.extend(
            f"{printable(row['topic'], 40):<{width}}  {row['nnz']:>10,} weights"
            for row in data["topics"]
        )
        if data["n_topics"] > len(data["topics"]):
            lines.append(f"({data['n_topics'] - len(data['topics'])} more topics)")
        return "\n".join(lines)
    lines.append("")
    width = max((len(printable(row["name"], 60)) for row in data["top_weights"]), default=0)
    lines.extend(
        f"{printable(row['name'], 60):<{width}}  {row['weight']:>+14.6g}"
        for row in data["top_weights"]
    )
    unit, total = "weights", data["nnz"]
    if "n_tables" in data:
        unit, total = "tables", data["n_tables"]
    if total > len(data["top_weights"]):
        lines.append(f"({total - len(data['top_weights'])} more {unit})")
    return "\n".join(lines)
