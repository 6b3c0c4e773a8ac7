r"""Figures from ``benchmarks/results``, written into the pages while they are built.

``{= FILE: path / to / value | FORMAT =}`` becomes the value; a path that is not there stops the
build, so that no page can go on showing a figure that nobody measured. In a table the bar is
written ``\|``.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from tools.docs.includes import ROOT

__all__ = ["figure", "fill_in", "latency", "rankers_compared"]

_FIGURE = re.compile(r"\{= *(\S+?): *(.+?) *(?:\\?\| *(\S+) *)?=\}")
_TASKS = {
    "graded lists": "graded lists, 64 dense features",
    "click lists": "lists with one purchase, 2^20 hashed features",
    "one rare topic": "one rare topic among texts, 47,236 words",
    "real-valued labels": "real-valued labels of the same texts",
}
_NAMES = {
    "spd": "[`SPDRanker`](rankers/spd.md)",
    "ranksvm": "[`RankSVM`](rankers/ranksvm.md)",
    "least-squares": "[`LeastSquaresRanker`](rankers/least-squares.md)",
    "domination": "[`DominationRanker`](rankers/domination.md)",
    "elastic": "[`ElasticRanker`](rankers/elastic.md)",
}


@cache
def _results(name: str) -> dict[str, Any]:
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def figure(name: str, path: str) -> Any:
    """One value of a result file: keys and positions, separated by slashes."""
    value: Any = _results(name)
    for key in (part.strip() for part in path.split("/")):
        try:
            value = value[int(key) if isinstance(value, list) else key]
        except (KeyError, IndexError) as error:
            raise LookupError(f"benchmarks/results/{name}.json has no {path!r}") from error
    return value


def fill_in(markdown: str) -> str:
    """Replace every figure of a page."""
    return _FIGURE.sub(
        lambda found: format(figure(found.group(1), found.group(2)), found.group(3) or ""), markdown
    )


def rankers_compared() -> str:
    """One table for each kind of data: quality, time and size of every ranker."""
    parts = []
    for task, words in _TASKS.items():
        found = figure("which_ranker", f"tasks / {task}")
        rows = f"{found['rows']:,}"
        parts.append(
            f"\n**{words[0].upper()}{words[1:]}**, {rows} training rows\n\n"
            f"| ranker | {found['metric']} on test | CPU seconds | weights |\n|---|---|---|---|"
        )
        parts += [_row(name, values) for name, values in found["rankers"].items()]
    return "\n".join(parts)


def _row(name: str, values: dict[str, Any]) -> str:
    if "unfit" in values:
        return f"| {_NAMES[name]} | {values['unfit']} | | |"
    return (
        f"| {_NAMES[name]} | {values['test']:.3f} | {values['seconds']:.2g} "
        f"| {values['weights']:,} |"
    )


def latency() -> str:
    """Time to rank a list of 100 when every column is fetched from a store."""
    fetched = figure("scoring", "end_to_end_ms")
    micro = 1e6 * figure("scoring", "column_seconds")
    lines = [
        f"With a store that takes {micro:.0f} µs a column, ranking 100 candidates takes\n",
        "| weights | milliseconds |\n|---|---|",
    ]
    lines += [f"| {int(size):,} | {time:.2g} |" for size, time in fetched.items()]
    return "\n".join(lines)
