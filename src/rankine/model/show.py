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
from rankine.core.text_table import table_lines, wrap_text
from rankine.model.bundle import ModelBundle
from rankine.model.checks import read_progress
from rankine.model.explain import Contribution, Explanation
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
        **_calibration(model),
    }


def _calibration(model: LinearModel) -> dict[str, Any]:
    """Return the calibration in one line, if there is one."""
    spec = model.calibration
    if spec is None:
        return {}
    text = f"P({spec.outcome}), from {spec.n_outcomes:,} outcomes in {spec.n_lists:,} lists"
    if spec.position is not None:
        text += f", by {spec.position} up to {len(spec.examination)}"
    return {"calibration": text}


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
#: Characters of a name that are printed; a longer one comes from a damaged or hostile file.
_MAX_NAME = 200
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


def explanation_text(
    explanation: Explanation, limit: int | None = 10, width: int | None = None
) -> str:
    """Format an explanation as aligned columns, with a line for the omitted terms and the total.

    A line has at most ``width`` characters; None sets no limit.
    """
    text: tuple[int, ...] = (0,)
    header = ["feature", "weight", "value", "contribution"]
    label = "score"
    if explanation.pair:
        header = ["feature", "weight", "a", "b", "contribution"]
        label = "score of a - score of b"
        # Rows of a pair show their cells, which are texts, in place of numbers.
        if any(term.where is not None for term in explanation.contributions):
            text = (0, 2, 3)
    shown = explanation.contributions[:limit]
    hidden = explanation.contributions[len(shown) :]
    rows = [_term_cells(term, pair=explanation.pair) for term in shown]
    blank = [""] * (len(header) - 2)
    if hidden:
        amount = math.fsum(term.contribution for term in hidden)
        rows.append([f"({len(hidden)} more)", *blank, f"{amount:+.6g}"])
    rows.append([label, *blank, f"{explanation.total:+.6g}"])
    if explanation.uncertainty is not None:
        low, high = explanation.interval()
        rows.append(["95% interval, low", *blank, f"{low:+.6g}"])
        rows.append(["95% interval, high", *blank, f"{high:+.6g}"])
        rows.append(["P(a above b)", *blank, f"{explanation.probability:.3f}"])
    return "\n".join(table_lines(header, rows, text=text, optional=("weight",), width=width))


def _term_cells(term: Contribution, *, pair: bool) -> list[str]:
    """Return a row of the table: the term's name, weight, values and contribution."""
    name = term.name
    values = [_value_text(term.value), _value_text(term.other)]
    if not pair:
        name = term.where or name
        del values[1]
    elif term.where is not None and term.other_where is not None:
        # The name of a category is in the description of its cell already.
        cells = (term.where, term.other_where)
        values = [
            f"{value} ({cell})" if isinstance(number, float) else printable(cell, _MAX_NAME)
            for number, value, cell in zip((term.value, term.other), values, cells, strict=True)
        ]
    contribution = f"{term.contribution:+.6g}"
    return [printable(name, _MAX_NAME), _value_text(term.weight), *values, contribution]


def _value_text(value: float | str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return printable(value, _MAX_NAME)
    return f"{value:.6g}"


def _flatten(metadata: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """List names and values; mappings are listed entry by entry, with names like ``trace.gap``."""
    entries: list[tuple[str, Any]] = []
    for key, value in metadata.items():
        if isinstance(value, Mapping):
            entries += [(f"{key}.{name}", inner) for name, inner in _flatten(value)]
        else:
            entries.append((str(key), value))
    return entries


def summary_text(data: dict[str, Any], width: int | None = None) -> str:
    """Format a summary (``model.summary()``) as lines of text.

    A line has at most ``width`` characters; None sets no limit.
    """
    rows = [("digest", data["digest"])]
    if data.get("metric"):
        rows.append(("metric", printable(data["metric"])))
    if data.get("calibration"):
        rows.append(("calibration", printable(data["calibration"])))
    rows += [("transform", _transform_text(spec)) for spec in data["transforms"]]
    for number, edit in enumerate(read_progress(data["provenance"]).edits, 1):
        rows += [(f"edit {number}", printable(line, _MAX_NAME)) for line in edit.lines]
    for section in ("parameters", "provenance"):
        for key, value in _flatten(data[section]):
            if key == "edits":
                continue
            rows.append((section, f"{printable(key)} = {_summary_value(value)}"))
    lines = wrap_text(
        f"{data['kind']} model, {data['nnz']:,} of {data['n_features']:,} features weighted", width
    )
    lines += table_lines(("", ""), rows, text=(0, 1), width=width)
    if "topics" in data:
        unit, total = "topics", data["n_topics"]
        largest = [(row["topic"], f"{row['nnz']:,} weights") for row in data["topics"]]
    else:
        unit, total = "weights", data["nnz"]
        if "n_tables" in data:
            unit, total = "tables", data["n_tables"]
        largest = [(row["name"], f"{row['weight']:+.6g}") for row in data["top_weights"]]
    cells = [(printable(name, _MAX_NAME), text) for name, text in largest]
    lines += ["", *table_lines(("", ""), cells, width=width)]
    if total > len(cells):
        lines.append(f"({total - len(cells):,} more {unit})")
    return "\n".join(lines)


def _transform_text(spec: Mapping[str, Any]) -> str:
    fields = ", ".join(
        f"{key}={_summary_value(value)}" for key, value in spec.items() if key != "type"
    )
    return f"{printable(spec['type'])} {fields}".rstrip()


def _summary_value(value: Any) -> str:
    """Return a value as text; --json prints what is too long for a line."""
    if isinstance(value, (list, tuple)):
        if len(value) > _MAX_LISTED:
            return f"{len(value):,} values, the last {_summary_value(value[-1])}"
        return f"[{', '.join(map(_summary_value, value))}]"
    if isinstance(value, Mapping):
        fields = (f"{printable(str(key))}={_summary_value(inner)}" for key, inner in value.items())
        text = f"({', '.join(fields)})"
        return text if len(text) <= _MAX_NAME else f"{len(value):,} entries"
    text = str(value)
    if len(text) > _MAX_NAME:
        return f"{len(text):,} characters"
    return printable(text)
