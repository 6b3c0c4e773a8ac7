"""The data that the model was judged on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.core.safe_text import Html, join, name_of, tag
from rankine.report.page import Section, figures
from rankine.report.svg import figure, histogram
from rankine.report.words import count, percent, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.report.figures.data import DataSummary, Histogram

__all__ = ["data_section"]


def data_section(found: DataSummary) -> Section:
    """Histograms, oddities, and where it came from."""
    low, _, middle, _, high = found.length_quantiles
    lead = (
        f"{plural(found.rows, 'item')} in {plural(found.queries, 'query', 'queries')}; lists hold "
        f"{count(low)} to {count(high)} items, half of them {count(middle)} or fewer."
    )
    pictures = figures(_labels(found.labels), _lengths(found.lengths))
    card = tag("div", tag("dl", _facts(found)), class_="card")
    return Section("data", "Data", "What was it judged on?", lead, join([pictures, card]))


def _labels(found: Histogram) -> Html:
    total = sum(found.counts)
    if found.names:
        best = max(range(len(found.counts)), key=lambda k: found.counts[k])
        words = (
            f"Items of each label; {percent(found.counts[best] / total)} have label "
            f"{found.names[best]}. Read: where almost all items have one label, few pairs teach."
        )
    else:
        words = "Items by label, in equal intervals. Read: labels may be any numbers."
    picture = histogram(
        [float(e) for e in found.edges],
        found.counts,
        "label",
        "items",
        "Histogram of labels",
        labels=found.names or None,
    )
    return figure("Labels", picture, words)


def _lengths(found: Histogram) -> Html:
    words = (
        "Queries by the number of their items. Read: in very short lists every order looks good; "
        "very long ones hold most of the pairs."
    )
    picture = histogram(
        found.edges, found.counts, "items of a query", "queries", "Histogram of list lengths"
    )
    return figure("List lengths", picture, words)


def _facts(found: DataSummary) -> list[Html]:
    rows: list[tuple[str, Any]] = [
        ("features", f"{count(found.n_features)}, {found.storage}, {count(found.values)} values"),
        ("pairs", f"{count(found.pairs)} pairs of items with different labels"),
        (
            "one label only",
            f"{plural(found.without_pairs, 'query', 'queries')} without any pair"
            + _rule(found.without_value, found.no_relevant),
        ),
    ]
    for title, number, names in (
        ("always zero", found.zero, found.zero_names),
        ("constant", found.constant, found.constant_names),
        ("constant within lists", found.flat, found.flat_names),
    ):
        if number:
            rows.append((title, _named(number, names)))
    if not (found.zero or found.constant or found.flat):
        rows.append(("dead features", "none: every feature differs within some list"))
    if found.columns:
        rows.append(("further columns", _listed(found.columns)))
    if found.notes:
        told = [
            tag("div", name_of(name.replace("_", " ")), f": {count(number)}")
            for name, number in found.notes.items()
        ]
        rows.append(("counted by the reader", told))
    else:
        rows.append(("counted by the reader", "no row skipped, no value replaced"))
    if found.sources:
        rows.append(("files", _listed(found.sources)))
    rows.append(("fingerprint", tag("code", found.fingerprint)))
    return [part for name, value in rows for part in (tag("dt", name), tag("dd", value))]


def _rule(without: int | None, rule: str | None) -> str:
    if not without or rule is None:
        return ""
    counted = "are left out of the means" if rule == "skip" else f"count {rule} in the means"
    return f"; {plural(without, 'query', 'queries')} without a relevant item {counted}"


def _named(number: int, names: Sequence[str]) -> Html:
    return join([f"{plural(number, 'feature')}: ", _listed(names, number)])


def _listed(names: Sequence[str], number: int | None = None, limit: int = 12) -> Html:
    total = len(names) if number is None else number
    parts: list[Any] = []
    for k, name in enumerate(names[:limit]):
        parts += [", " if k else "", name_of(name, 60)]
    if total > limit:
        parts.append(f" and {count(total - limit)} more")
    return join(parts)
