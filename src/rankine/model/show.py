"""A model to look at: plain data, text, rich tables, HTML; names from files are made safe."""

from __future__ import annotations

import math
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
    """Size, norms, the ``top`` heaviest weights (of tables: ranges), and how it was trained."""
    order = np.argsort(-np.abs(model.values), kind="stable")[:top]
    names = model.weight_names
    tables = find_tables(model)
    heaviest: dict[str, Any] = {
        "top_weights": [
            {"name": names[k], "index": int(model.indices[k]), "weight": float(model.values[k])}
            for k in order.tolist()
        ]
    }
    if tables is not None:
        ranges = tables.ranges()
        shown = [{"name": name, "weight": size} for name, size in ranges[:top]]
        heaviest = {"n_tables": len(ranges), "top_weights": shown}
    return {
        "kind": "linear" if tables is None else "additive",
        **_facts(model),
        "zero_percent": round(100 * (1 - model.nnz / max(model.n_features, 1)), 3),
        "l1_norm": float(np.abs(model.values).sum()),
        "l2_norm": float(np.sqrt(np.square(model.values).sum())),
        "probes": 0 if model.probes is None else len(model.probes.rows),
        **heaviest,
    }


def _facts(model: LinearModel | ModelBundle) -> dict[str, Any]:
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
    """Size of a bundle and of its first ``top`` topics."""
    sizes = np.diff(bundle.starts).tolist()
    return {
        "kind": "bundle",
        **_facts(bundle),
        "n_topics": len(bundle),
        "topics": [
            {"topic": topic, "nnz": nnz}
            for topic, nnz in zip(bundle.topics.strings[:top], sizes[:top], strict=True)
        ],
    }


TOP = 8
_PLUS, _MINUS = "#2f6fab", "#c2570c"


def model_html(model: LinearModel) -> str:
    """Size, metric, ranker, digest and the heaviest weights, or the tables of widest range."""
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
    """Number of models, shared features, the first topics."""
    rows: list[tuple[Any, Any]] = [
        ("models", f"{len(bundle):,}"),
        ("weights", f"{bundle.nnz:,} over {bundle.n_features:,} features"),
        ("topics", listed(bundle, TOP)),
        ("digest", bundle.digest[:16]),
    ]
    return html_table("rankine.ModelBundle", rows)


def weights_html(names: Any, values: NDArray[np.float64]) -> Html:
    """The heaviest of some weights, a bar each."""
    order = np.argsort(-np.abs(values), kind="stable")[:TOP].tolist()
    if not order:
        return join(["none"])
    largest = abs(float(values[order[0]])) or 1.0
    lines = [
        [
            tag("br") if k else None,
            name_of(names[j], 40),
            f" {values[j]:+.4g} ",
            small_bar(abs(float(values[j])) / largest, _MINUS if values[j] < 0 else _PLUS),
        ]
        for k, j in enumerate(order)
    ]
    more = [tag("br"), f"and {len(values) - TOP:,} more"] if len(values) > TOP else None
    return join([lines, more])


def explanation_text(explanation: Explanation, limit: int | None = 10) -> str:
    """Aligned columns, a rest line where terms are left out, and the total."""
    head, body = _cells(explanation, limit)
    widths = [max(len(row[c]) for row in [head, *body]) for c in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if c == 0 else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *body]
    ]
    return "\n".join(lines)


def _cells(explanation: Explanation, limit: int | None) -> tuple[list[str], list[list[str]]]:
    pair = explanation.pair
    head = ["feature", "weight", *(["a", "b"] if pair else ["value"]), "contribution"]
    shown = explanation.contributions[:limit]
    body = []
    for term in shown:
        values = [term.value] if term.other is None else [term.value, term.other]
        if pair and len(values) == 1:
            values = [term.value, None]
        numbers = [term.weight, *values]
        body.append(
            [
                printable(term.where or term.name, 60),
                *("" if number is None else f"{number:.6g}" for number in numbers),
                f"{term.contribution:+.6g}",
            ]
        )
    blank = [""] * (len(head) - 2)
    rest = explanation.contributions[len(shown) :]
    if rest:
        amount = math.fsum(term.contribution for term in rest)
        body.append([f"({len(rest)} more)", *blank, f"{amount:+.6g}"])
    label = "score of a - score of b" if pair else "score"
    body.append([label, *blank, f"{explanation.total:+.6g}"])
    return head, body


def summary_text(data: dict[str, Any]) -> str:
    """A summary (``model.summary()``) as lines of text."""
    lines = [
        f"{data['kind']} model, {data['nnz']:,} of {data['n_features']:,} features weighted",
        f"digest      {data['digest']}",
    ]
    if data.get("metric"):
        lines.append(f"metric      {printable(data['metric'])}")
    for spec in data["transforms"]:
        rest = ", ".join(f"{key}={value}" for key, value in spec.items() if key != "type")
        lines.append(f"transform   {printable(spec['type'])} {printable(rest)}".rstrip())
    for section in ("parameters", "provenance"):
        for key, value in data[section].items():
            lines.append(f"{section[:10]:<11} {printable(str(key))} = {printable(str(value))}")
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
    kind, total = ("tables", data["n_tables"]) if "n_tables" in data else ("weights", data["nnz"])
    if total > len(data["top_weights"]):
        lines.append(f"({total - len(data['top_weights'])} more {kind})")
    return "\n".join(lines)
