r"""Figures from ``benchmarks/results`` in the pages: ``python -m tools.docs.figures`` writes them.

The value stands between ``<!--= FILE: path / to / value | FORMAT -->`` and ``<!-- -->``; a path
that is not there is an error, and a test compares every value with its file, so that no page can
go on showing a figure that nobody measured. In a table the bar is written ``\|``. Tables stand
between ``<!-- figures NAME -->`` and ``<!-- end NAME -->``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tools.docs.includes import ROOT

__all__ = ["figure", "fill_in", "pages"]

_FIGURE = re.compile(r"(<!--= *(\S+?): *(.+?) *(?:\\?\| *(\S+) *)?-->).*?(<!-- -->)")
_TABLE = re.compile(r"^(<!-- figures (\S+) -->\n).*?^(<!-- end \2 -->)$", re.MULTILINE | re.DOTALL)
_TASKS = {
    "graded lists": "graded lists, 64 dense features",
    "click lists": "lists with one purchase, 2^20 hashed features",
    "one rare topic": "one rare topic among texts, 47,236 words",
    "real-valued labels": "real-valued labels of the same texts",
}
#: Part of ``additive.json`` -> its words, the NDCG@10 aimed at, and how far trees may be ahead.
_ADDITIVE = {
    "mslr": ("rows of MSLR's shape (made of pairs)", 0.625, 0.0),
    "bench": ("the same shape by another generator", 0.598, 0.0),
    "california_random": ("California housing, random lists", 0.917, 0.015),
    "california_cells": ("California housing, grid cells", 0.825, 0.012),
    "letor / ohsumed_letor3_min": ("OHSUMED", None, None),
    "letor / mq2008": ("MQ2008", None, None),
    "three_way": ("effects of three columns (made)", None, None),
}
#: Made data: a difference in NDCG@10 that counts.
_MADE = 0.005
_NAMES = {
    "spd": "[`SPDRanker`](rankers/spd.md)",
    "ranksvm": "[`RankSVM`](rankers/ranksvm.md)",
    "least-squares": "[`LeastSquaresRanker`](rankers/least-squares.md)",
    "domination": "[`DominationRanker`](rankers/domination.md)",
    "elastic": "[`ElasticRanker`](rankers/elastic.md)",
    "additive": "[`AdditiveRanker`](rankers/additive.md)",
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
    """Write every figure of a page anew."""

    def value(found: re.Match[str]) -> str:
        opening, name, path, form, closing = found.groups()
        return f"{opening}{format(figure(name, path), form or '')}{closing}"

    def table(found: re.Match[str]) -> str:
        return f"{found.group(1)}\n{TABLES[found.group(2)]().strip()}\n\n{found.group(3)}"

    return _TABLE.sub(table, _FIGURE.sub(value, markdown))


def pages() -> list[Path]:
    """Every page that may hold figures."""
    return sorted((ROOT / "docs").rglob("*.md"))


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


def clicks_propensity() -> str:
    """Mean error of each way to estimate propensities, by kind of user."""
    found = figure("clicks", "propensity")
    methods = [name for name in next(iter(found.values())) if name != "sessions"]
    lines = [f"| users | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    lines += [
        f"| {users} | {' | '.join(format(row[name]['mean_error'], '.3f') for name in methods)} |"
        for users, row in found.items()
    ]
    return "\n".join(lines)


def clicks_learning() -> str:
    """NDCG@10 of true grades by way of learning and kind of user, mean over seeds."""
    found = figure("clicks", "learning")
    lines = []
    for taste in ("linear", "curved"):
        users = list(found[taste])
        lines += [f"\n| {taste} taste | {' | '.join(users)} |", "|---" * (len(users) + 1) + "|"]
        for name in found[taste][users[0]]:
            seeds = [[one["test"] for one in found[taste][who][name]] for who in users]
            means = (f"{sum(values) / len(values):.3f}" for values in seeds)
            lines.append(f"| {name} | {' | '.join(means)} |")
    return "\n".join(lines)


def clicks_power() -> str:
    """How often interleaving notices a better ranker, planned and simulated."""
    lines = ["| sessions | planned (exact test) | exact | bootstrap |\n|---|---|---|---|"]
    for row in figure("clicks", "interleaving / better / curve"):
        shares = " | ".join(f"{row[name]:.0%}" for name in ("planned", "exact", "bootstrap"))
        lines.append(f"| {row['sessions']:,} | {shares} |")
    return "\n".join(lines)


def fusion() -> str:
    """Held-out values of the fusion and of what is set by hand, by collection."""
    known, others = figure("fusion", "collections"), figure("fusion", "left_out")
    fresh, means = figure("fusion", "fresh"), figure("fusion", "means")
    columns = {
        name: {system["name"]: system["mean"] for system in found["systems"]}
        for name, found in {**known, **fresh}.items()
    }
    for name, found in others.items():
        columns[name]["rule of the other collections"] = found["mean"]
    heads = [*known, "mean of these", *fresh]
    columns["mean of these"] = means
    lines = [f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for way in ("fusion", *(way for way in means if way != "fusion")):
        values = (columns[head].get(way) for head in heads)
        lines.append(f"| {way} | {' | '.join('' if v is None else f'{v:.3f}' for v in values)} |")
    counts = (str({**known, **fresh}.get(head, {}).get("queries", "")) for head in heads)
    return "\n".join([*lines, f"| queries | {' | '.join(counts)} |"])


def comparisons() -> str:
    """What each ranker makes of comparisons of two."""
    import rankine

    found = {getattr(rankine, name) for name in rankine.__all__ if name.endswith(("Ranker", "SVM"))}
    lines = [f"| `{each.__name__}` | {each.can.comparisons} |" for each in sorted(found, key=str)]
    return "\n".join(["| ranker | comparisons |", "|---|---|", *lines])


_BAR = 0.006


def defaults_compared() -> str:
    """What defaults miss, then default and tuned values of every ranker on every set."""
    sets, losses = figure("defaults", "sets"), figure("defaults", "mean_loss")
    above = [f"{name} ({loss:.4f})" for name, loss in losses.items() if loss > _BAR]
    missed = [
        f"{name} on {task} ({mean:+.3f} ± {error:.3f} {against.replace('to_', 'to ')})"
        for task, name, against, mean, error in figure("defaults", "missed")
    ]
    lines = [
        (
            f"Missed: a mean loss of {_BAR} to the tuned setting by "
            f"{', '.join(above) or 'no ranker'}; 0.01 and two standard errors on a single set by "
            f"{'; '.join(missed) or 'none'}.\n"
        ),
        f"| NDCG@10 on test, default / tuned | {' | '.join(losses)} | scikit-learn |",
        "|---" * (len(losses) + 2) + "|",
    ]
    for task, found in sets.items():
        cells = [
            "not made for it"
            if "unfit" in found["rankers"][name]
            else f"{found['rankers'][name]['default']:.3f} / {found['rankers'][name]['tuned']:.3f}"
            for name in losses
        ]
        plain = f"{found['value']:.3f} ({found['baseline']})"
        lines.append(f"| {task}, {found['queries']} | {' | '.join(cells)} | {plain} |")
    mean = [f"{loss:+.4f}" for loss in losses.values()]
    return "\n".join([*lines, f"| mean loss of defaults | {' | '.join(mean)} | |"])


def additive() -> str:
    """What AdditiveRanker misses, then every set with all systems, then speed."""
    missed, lines, stored = [], [], _results("additive")
    stored = {
        **stored,
        **{f"letor / {name}": found for name, found in stored.get("letor", {}).items()},
    }
    unmeasured = [words for part, (words, _, _) in _ADDITIVE.items() if part not in stored]
    for part, (words, least, margin) in _ADDITIVE.items():
        if part not in stored:
            continue
        systems = stored[part]["systems"]
        ours, trees = systems["additive"], max(
            (systems["lightgbm"], systems["xgboost"]), key=lambda one: one["test"]
        )  # fmt: skip
        gap, error = trees["additive_minus"]["mean"], trees["additive_minus"]["error"]
        bar = _MADE if error is None else 2 * error
        verdict = "AdditiveRanker wins" if gap > bar else "trees win" if gap < -bar else "equal"
        lost = systems["ranksvm"]["additive_minus"]
        if least is not None and (ours["test"] < least or gap < -margin):
            missed.append(f"NDCG@10 on {words}")
        if lost["error"] is not None and lost["mean"] < -2 * lost["error"]:
            missed.append(f"RankSVM on {words} ({lost['mean']:+.3f})")
        for name, share in (("seconds", 1 / 2), ("single_seconds", 1 / 4)):
            if part in ("mslr", "bench") and ours[name] > share * systems["lightgbm"]["seconds"]:
                ratio = ours[name] / systems["lightgbm"]["seconds"]
                missed.append(f"{share} of LightGBM's CPU on {words} ({name}: {ratio:.2f})")
        shown = f"{gap:+.3f}" + ("" if error is None else f" ± {2 * error:.3f}")
        tests = (f"{systems[name]['test']:.3f}" for name in _ADDITIVE_SYSTEMS)
        cpu = (
            ours["seconds"], ours["single_seconds"],
            systems["lightgbm"]["seconds"], systems["xgboost"]["seconds"],
        )  # fmt: skip
        times = " / ".join(f"{seconds:.2g}" for seconds in cpu)
        lines.append(f"| {words} | {' | '.join(tests)} | {shown} | {verdict} | {times} |")
    speed = []
    for words, value, most in additive_speed():
        if value is not None and value > most:
            missed.append(f"{words} ({value:.3g}, at most {most:g})")
        speed.append(f"| {words} | {'' if value is None else format(value, '.3g')} | {most:g} |")
    head = ["data", "RankSVM", "AdditiveRanker", "LightGBM", "XGBoost", "difference", "verdict"]
    head.append("CPU s: path / one strength / LightGBM / XGBoost")
    return "\n".join(
        [
            f"Missed: {'; '.join(missed) or 'nothing that was aimed at'}.\n",
            *(f"Not measured: {words}.\n" for words in unmeasured),
            f"| {' | '.join(head)} |",
            "|---" * len(head) + "|",
            *lines,
            "\n| speed, one thread | measured | aimed at, at most |\n|---|---|---|",
            *speed,
        ]
    )


_ADDITIVE_SYSTEMS = ("ranksvm", "additive", "lightgbm", "xgboost")


def additive_speed() -> list[tuple[str, float | None, float]]:
    """What is measured, the figure (None: not measured), and what it should be at most."""
    found = figure("additive", "speed")
    served = found.get("served_ms", {})
    return [
        ("µs to score 100 rows of 136 columns, 50 pairs", found["score_100_us"]["median"], 50.0),
        ("ms of serving them beyond decoding", served.get("above_decoding"), 0.2),
        ("ns a look-up in a product with all tables", found["ns_a_look_up"], 1.2),
        ("bytes a row beside the codes while training", found.get("bytes_a_row"), 100.0),
        (f"CPU s at a fixed `smooth`, {found['rows'][-1]:,} rows", found["seconds"][-1], 60.0),
        (f"exponent of CPU s from {found['rows'][0]:,} rows on", found["exponent"], 1.1),
    ]


#: Name of a table -> what makes it.
TABLES: dict[str, Callable[[], str]] = {
    "additive": additive,
    "rankers-compared": rankers_compared,
    "latency": latency,
    "clicks-propensity": clicks_propensity,
    "clicks-power": clicks_power,
    "clicks-learning": clicks_learning,
    "comparisons": comparisons,
    "fusion": fusion,
    "defaults": defaults_compared,
}


def main() -> int:
    """Write the figures of all pages."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        filled = fill_in(text)
        if filled != text:
            path.write_text(filled, encoding="utf-8")
            print(f"written: {path}")  # noqa: T201 - what a script says
    return 0


if __name__ == "__main__":
    sys.exit(main())
