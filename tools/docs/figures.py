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
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers.ratios import shown

from tools.docs.includes import ROOT

__all__ = ["figure", "fill_in", "pages", "unmarked"]

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
    """One value of a result file: keys and positions, separated by slashes.

    Of a list of numbers it is their median: one value a claim.
    """
    value: Any = _results(name)
    for key in (part.strip() for part in path.split("/")):
        try:
            value = value[int(key) if isinstance(value, list) else key]
        except (KeyError, IndexError) as error:
            raise LookupError(f"benchmarks/results/{name}.json has no {path!r}") from error
    if isinstance(value, list) and value and all(isinstance(v, (int, float)) for v in value):
        return median(value)
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
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


#: A number with a decimal point or with a unit, which a table may show only where it was measured.
_NUMBER = re.compile(
    r"(?<!LETOR )(?<![\w.])\d*\.\d+(?!\d|\.\d)"  # not a version such as 9.10.1
    r"|\b\d[\d,]* ?(?:%|[mnuµ]?s|[KMG]i?B(?:/s)?|times|hours?|minutes?)(?!\w)"
)


def unmarked(markdown: str) -> list[str]:
    """Lines of tables with a figure that no marker writes; what stands in backticks is none."""
    text = re.sub(r"^```.*?^```", "", _TABLE.sub("", markdown), flags=re.MULTILINE | re.DOTALL)
    rows = (line for line in text.splitlines() if line.lstrip().startswith("|"))
    return [row for row in rows if _NUMBER.search(re.sub(r"`[^`]*`", "", _FIGURE.sub("", row)))]


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
    rankers = sorted(found, key=str)
    lines = [f"| `{each.__name__}` | {each.capabilities.comparisons} |" for each in rankers]
    return "\n".join(["| ranker | comparisons |", "|---|---|", *lines])


def speed() -> str:
    """Times of rankine and of peers on the same rows."""
    parsed = [figure("parsing", f"files / {name}.docids.txt / megabytes_per_cpu_second")
              for name in ("sparse", "dense")]  # fmt: skip
    read = {name: [each[name] for each in parsed] for name in parsed[0]}
    step, exact = figure("spd", "sofia / pegasos"), _at(figure("ranksvm", "sizes"), 512_000)
    sizes = figure("airola.peers", "sizes")
    small, graded = _at(sizes, 8_000), _at(sizes, 256_000)
    log = figure("instead.click_log", "learners")
    lists = figure("instead.click_log", "rows / train / queries")
    large = figure("least_squares", "solvers / cg / s")
    few = figure("domination", "nonzero_percent")
    scored = figure("scoring", "microseconds_per_list / 100 candidates, 29 weights")

    def pair(values: list[float]) -> str:
        return " / ".join(f"{value:.0f}" for value in values)

    def seconds(found: dict[str, Any]) -> str:
        return f"{found['seconds']['median']:.2g} s"

    def pass_over(name: str) -> str:
        return f"{log[name]['cpu_seconds']['median']:.2g} s"

    rows = [
        ("read LETOR text, sparse / dense rows, every check on",
         f"{pair(read['rankine'])} MB/s",
         f"XGBoost {pair(read['xgboost'])}, scikit-learn {pair(read['scikit-learn'])} MB/s"),
        ("SPD (Pegasos), one step, 781,265 x 47,236 sparse rows", f"{step['ours_ns']:,.0f} ns",
         f"sofia-ml {step['theirs_ns']:,.0f} ns"),
        (f"RankSVM, squared hinge, {exact['rows']:,} rows, same objective",
         f"{exact['squared_s']:.2g} s",
         f"liblinear-ranksvm {exact['peer_s']:.3g} s (its own clock)"),
        (f"RankSVM, hinge, {exact['rows']:,} rows, gap certified to 1e-3",
         f"{exact['hinge_s']:.2g} s", ""),
        (f"RankSVM, hinge, {small['rows']:,} rows of real-valued labels, reading included",
         seconds(small["methods"]["rankine, hinge"]),
         f"SVMrank {seconds(small['methods']['SVMrank'])}"),
        (f"RankSVM, hinge, {graded['rows']:,} rows of two grades, gap 1e-3",
         seconds(graded["two_grades"]["rankine, hinge"]),
         f"dlib {seconds(graded['two_grades']['dlib'])}"),
        ("ElasticRanker, one pass over 1,000,000 lists of 10, 2^20 features",
         f"{figure('elastic', 'speed / cpu_s'):.2g} s from memory", ""),
        (f"ElasticRanker, one pass over {lists:,} such lists", pass_over("rankine ElasticRank"),
         f"Vowpal Wabbit {pass_over('Vowpal Wabbit')}, parsing its text included"),
        ("least squares, 781,265 rows, residual 1e-4", f"{large:.2g} s",
         f"RLScore {figure('least_squares', 'rlscore_s'):.3g} s"),
        ("domination rank, 781,265 rows, one in 500 relevant, gap 1e-3",
         f"{figure('domination', 'seconds'):.2g} s, {few:.2g} % of the weights", ""),
        ("score 100 candidates, 29 weights, dense / sparse",
         f"{scored['dense']['rankine']:.2g} / {scored['sparse']['rankine']:.2g} us",
         f"onnxruntime {scored['dense']['onnxruntime float32']:.2g} / scipy "
         + f"{scored['sparse']['scipy product']:.2g} us"),
    ]  # fmt: skip
    return "\n".join(["| task | rankine | peer |", "|---|---|---|", *map(_cells, rows)])


def _at(sizes: list[dict[str, Any]], rows: int) -> dict[str, Any]:
    """Return the measurement of a number of rows."""
    return next(size for size in sizes if size["rows"] == rows)


def letor_map() -> str:
    """Five-fold test MAP as ``rankine letor`` prints it, medians over seeds."""
    from rankine.evaluation.letor_tables import PUBLISHED, read_baselines

    published, tasks = read_baselines(PUBLISHED), figure("letor", "tasks")
    shown = {"ohsumed": "OHSUMED", "mq2008": "MQ2008"}
    rows = [
        ("SVMrank (published C program)", *(f"{published[t]['SVMrank']['map']:.4f}" for t in shown))
    ]
    for ranker, name in (("ranksvm", "`RankSVM`"), ("spd", "`SPDRanker` (Pegasos)")):
        rows.append((name, *(f"{tasks[task][ranker]:.4f}" for task in shown)))
    head = ["| | " + " | ".join(shown.values()) + " |", "|---" * (len(shown) + 1) + "|"]
    return "\n".join([*head, *map(_cells, rows)])


def scoring_times() -> str:
    """Microseconds a list by rankine and peers."""
    columns = {
        "rankine, dense": ("dense", "rankine"),
        "numpy product": ("dense", "numpy product"),
        "onnxruntime": ("dense", "onnxruntime float32"),
        "scikit-learn `predict`": ("dense", "scikit-learn predict"),
        "rankine, CSR": ("sparse", "rankine"),
        "scipy product": ("sparse", "scipy product"),
    }
    rows = [
        (name, *(f"{found[kind][who]:.{1 if found[kind][who] < 10 else 0}f}"
                 for kind, who in columns.values()))
        for name, found in figure("scoring", "microseconds_per_list").items()
    ]  # fmt: skip
    head = [_cells(("list", *columns)), "|---" * (len(columns) + 1) + "|"]
    return "\n".join([*head, *map(_cells, rows)])


def probabilities() -> str:
    """Calibration error and log loss of probabilities, the means over the seeds."""
    runs = _results("probabilities")["runs"]
    lines = ["| model | ECE | log loss | lists whose order changed |", "|---|---|---|---|"]
    for name in runs[0]:
        means = {key: sum(run[name][key] for run in runs) / len(runs) for key in runs[0][name]}
        changed = ""
        if "changed orders" in means:
            changed = f"{means['changed orders']:.0f}"
        lines.append(f"| {name} | {means['ece']:.4f} | {means['log loss']:.4f} | {changed} |")
    return "\n".join(lines)


def shapes() -> str:
    """Violations of shapes, what they cost, and their time."""
    results = _results("shapes")
    lost = results["lost"]
    rows = [
        ("data sets", f"{results['sets']}"),
        ("unproved", f"{results['unproved']}"),
        (f"wrong pairs of {results['pairs']:,}", ", ".join(
            f"{name} {count:,}" for name, count in results["violations"].items()
        )),
        ("NDCG@10 that shapes cost", f"{lost['mean']:.4f} ± {2 * lost['error']:.4f}"),
        ("time with shapes, default strengths", f"{results['time']['median']:.1f} times"),
        ("time with shapes, `smooth` given", f"{results['time']['given']:.1f} times"),
    ]  # fmt: skip
    return "\n".join([_cells(("", "measured")), "|---|---|", *map(_cells, rows)])


def edit_times() -> str:
    """CPU time of edits beside that of the fits that they continue."""
    names = {"default": "default", "given": "`smooth` given"}
    results = _results("edit")["sizes"]
    lines = ["| rows | strengths | fit | edit | of a model file |", "|---|---|---|---|---|"]
    largest = max(each["share"]["edit"] for each in results)
    if largest > 0.1:
        lines[:0] = [f"Missed: share of an edit in the fit ({largest:.0%}, at most 10 %).", ""]
    for each in results:
        seconds, share = each["seconds"], each["share"]
        edits = (f"{seconds[key]:.1f} s ({share[key]:.0%})" for key in ("edit", "model"))
        fit = f"{seconds['fit']:.1f} s"
        lines.append(_cells((f"{each['rows']:,}", names[each["strengths"]], fit, *edits)))
    return "\n".join(lines)


def arrow_scorer() -> str:
    """Rows a second of the Arrow scorer, alone and in Spark."""
    rates = figure("arrow-scorer", "rows_per_second")
    rows = [
        ("scores, batches of 10,000 rows", "scores_10000"),
        ("scores, batches of 65,536 rows", "scores_65536"),
        ("scores and ranks, batches of 10,000 rows", "ranks_10000"),
        ("scores and ranks, batches of 65,536 rows", "ranks_65536"),
        ("scores and ranks in Spark", "spark"),
        ("Spark without a model: the function copies two columns", "spark_copy"),
    ]
    cells = [_cells((name, f"{rates[key] / 1e6:.2g}")) for name, key in rows]
    return "\n".join([_cells(("", "million rows a second")), "|---|---|", *cells])


def stores() -> str:
    """Time through a store of 20 ms latency, as a multiple of that from the disk."""
    files = figure("stores", "files")
    names = {"rows.parquet": "Parquet, 30 columns", "rows.txt": "LETOR text"}
    cells = [
        _cells((name, f"{files[file]['megabytes']:.0f}", f"{files[file]['scan_ratio']:.1f}",
                f"{files[file]['train_ratio']:.1f}"))
        for file, name in names.items()
    ]  # fmt: skip
    head = _cells(("file", "MB", "one pass, no training", "`ElasticRanker`, training included"))
    return "\n".join([head, "|---|---|---|---|", *cells])


def pruning() -> str:
    """What the pruner gave up, saved and lost on replayed learning curves."""
    sets = {"MQ2008": "mq2008", "OHSUMED": "ohsumed_letor3_querylevelnorm"}
    found = {name: figure("tune_replay", folder) for name, folder in sets.items()}
    head = ("", *(f"{name}: {what}" for name in sets for what in
                  ("given up of 30", "work left", "would have won")))  # fmt: skip
    rows = [
        (f"`{ranker}`", *(
            cell for each in found.values() for cell in (
                f"{each[ranker]['pruned_of_30']:.1f}", f"{each[ranker]['work']:.0%}",
                f"{each[ranker]['wrongly_of_pruned']:.1%}",
            )
        ))
        for ranker in next(iter(found.values()))
    ]  # fmt: skip
    return "\n".join([_cells(head), "|---" * len(head) + "|", *map(_cells, rows)])


def purchase_models() -> str:
    """Recall and NDCG of models of every size on purchase lists, and of peers."""
    names = {
        "elastic, any size": "any size: `l1=0`",
        "elastic, under 20,000": "under 20,000 weights: `l1=3e-6, max_nonzero=19999`",
        "elastic, under 2,000": "under 2,000 weights: `l1=0, max_nonzero=1999`",
        "vowpal wabbit, logistic": "Vowpal Wabbit, logistic, `-b 20`, otherwise its defaults",
        "spd 1M pairs": "SPD, 1M pairs, `l2=1e-4`",
    }
    found = figure("elastic", "clicks / test")
    rows = [
        (words, f"{found[name]['weights']:,}" if "weights" in found[name] else "",
         *(f"{found[name][metric]:.4f}" for metric in ("recall@1", "recall@4", "ndcg@10")))
        for name, words in names.items()
    ]  # fmt: skip
    head = _cells(("model", "weights", "R@1", "R@4", "NDCG@10"))
    return "\n".join([head, "|---|---|---|---|---|", *map(_cells, rows)])


def _cells(row: Sequence[str]) -> str:
    return "| " + " | ".join(row) + " |"


_BAR = 0.006


def defaults_missed() -> str:
    """Where the defaults are worse than the bars allow, by name."""
    losses = figure("defaults", "mean_loss")
    above = [f"{name} ({loss:.4f})" for name, loss in losses.items() if loss > _BAR]
    missed = [
        f"{name} on {task} ({mean:+.3f} ± {error:.3f} {against.replace('to_', 'to ')})"
        for task, name, against, mean, error in figure("defaults", "missed")
    ]
    return (
        f"Missed: a mean loss of {_BAR} to the tuned setting by {', '.join(above) or 'no ranker'}; "
        f"0.01 and two standard errors on a single set by {'; '.join(missed) or 'none'}."
    )


def defaults_compared() -> str:
    """Default and tuned values of every ranker on every set."""
    sets, losses = figure("defaults", "sets"), figure("defaults", "mean_loss")
    lines = [
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
        (
            "ms of serving them beyond reading the request into a matrix",
            served.get("above_decoding"),
            0.2,
        ),
        ("ns a look-up in a product with all tables", found["ns_a_look_up"], 1.2),
        ("bytes a row while training, codes not counted", found.get("bytes_a_row"), 100.0),
        (f"CPU s at a fixed `smooth`, {found['rows'][-1]:,} rows", found["seconds"][-1], 60.0),
        (f"exponent of CPU s from {found['rows'][0]:,} rows on", found["exponent"], 1.1),
    ]


def billion_runs() -> str:
    """Seconds of the killed, the resumed and the unbroken run over a billion rows."""
    found = _results("billion")
    words = {True: "yes", False: "**no**", None: "not seen"}
    rows = [
        ("until it was killed", found["until_killed"], f"at list {found['killed_at_list']:,}"),
        (
            "resumed, to the end",
            found["resumed"],
            f"writes the state again that was thrown away: {words[found['same_checkpoint']]}",
        ),
        ("both", found, ""),
    ]
    if "unbroken" in found:
        same = words[found["unbroken"]["same_model"]]
        rows.append(("without a break", found["unbroken"], f"the same bits: {same}"))
    told = (
        f"| {name} | {one['wall_s']:.0f} | {one['cpu_s']:.0f} | {why} |" for name, one, why in rows
    )
    return "\n".join(["| | wall s | CPU s | |", "|---|---|---|---|", *told])


def billion() -> str:
    """The metric on held-out lists along a stream of a billion rows."""
    told = (f"| {row['rows']:,} | {row['ndcg@10']:.4f} |" for row in figure("billion", "quality"))
    return "\n".join(["| rows | NDCG@10 |", "|---|---|", *told])


def many_machines() -> str:
    """Fits on two Dask workers, one of them killed: time, bytes, and who spent it."""
    heads = ["", "rows", "partitions", "rounds", "wall", "CPU of workers", "of the solver"]
    heads += ["of scheduler and client", "moved", "worker killed"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, run in _fits("partitions_many").items():
        killed = run["killed"]
        back = killed.get("seconds_until_replaced")
        after = "after the end" if back is None else f"after {back:.0f} s"
        lines.append(
            f"| {name} | {run['rows']:.0e} | {run['partitions']} | {len(run['rounds'])} "
            f"| {run['wall']:.0f} s | {run['worker_cpu']:.0f} s | {run['solver_cpu']:.1f} s "
            f"| {run['scheduler_cpu']:.1f} s ({run['scheduler_share']:.1%}) "
            f"| {run['bytes'] / 1e6:.0f} MB | in round {killed['round'] + 1}, back {after} |"
        )
    return "\n".join(lines)


def _fits(name: str) -> dict[str, Any]:
    found = _results(name)
    return {key: run for key, run in found.items() if isinstance(run, dict) and "rounds" in run}


def many_machines_checked() -> str:
    """The simulation beside the runs that it was made from."""
    lines = ["| seconds of all rounds | measured | simulated | off by |", "|---|---|---|---|"]
    for name, row in figure("partitions_simulated", "check").items():
        lines.append(
            f"| {name} | {row['measured']:.0f} | {row['simulated']:.0f} | {row['error']:+.0%} |"
        )
    return "\n".join(lines)


def many_machines_simulated() -> str:
    """Time and cost of every way to train, for both sizes and both clusters."""
    heads = [
        f"10^{len(size) - 1} rows, {int(workers):,} workers"
        for size, found in next(iter(figure("partitions_simulated", "outlook").values())).items()
        for workers in found
    ]
    lines = [f"| rounds | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name, sizes in figure("partitions_simulated", "outlook").items():
        cells = [_time_and_cost(one) for found in sizes.values() for one in found.values()]
        rounds = next(one["rounds"] for found in sizes.values() for one in found.values())
        lines.append(f"| {name}, {rounds} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _time_and_cost(one: dict[str, Any]) -> str:
    seconds = one["seconds"]
    time = (
        f"{seconds:.0f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )
    limit = ", *scheduler*" if one["scheduler_is_the_limit"] else ""
    return f"{time}, ${one['dollars']:,.2f}{limit}"


def reading() -> str:
    """Text that is streamed, beside the tokenizer and the decompressor alone."""
    lines = ["| | MB | streamed, MB/s | tokenizer | decompressor | of the slower part |"]
    lines.append("|---" * 6 + "|")
    for name, one in figure("reading", "files").items():
        size, plain = one["megabytes"], {"of_the_slower": one["of_the_tokenizer"], **one}
        for kind, run in {"": plain, **one["compressed"]}.items():
            alone = f"{size / run['decompressor']:.0f}" if kind else ""
            lines.append(
                f"| {name}.txt{kind} | {size:.0f} | {size / run['wall']:.0f} "
                f"| {size / run['tokenizer']:.0f} | {alone} | {run['of_the_slower']:.0%} |"
            )
    return "\n".join(lines)


def threads() -> str:
    """Wall seconds of one and of two threads."""
    lines = [
        "| | one thread | two | faster | wanted | not shared | same bits |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in figure("threads", "subjects").items():
        lines.append(
            f"| {name.replace('_', ' ')} | {row['one']:.2f} s | {row['two']:.2f} s "
            f"| {row['speedup']:.2f} | {row['wanted']} | {max(row['serial'], 0.0):.0%} "
            f"| {'yes' if row['same_bits'] else 'no'} |"
        )
    return "\n".join(lines)


#: Name of a table -> what makes it.
def peers() -> str:
    """Figures of rankine and of other libraries from one run, and their ratios."""
    return shown(figure("peers", "rows"))


TABLES: dict[str, Callable[[], str]] = {
    "additive": additive,
    "billion": billion,
    "billion-runs": billion_runs,
    "rankers-compared": rankers_compared,
    "latency": latency,
    "peers": peers,
    "clicks-propensity": clicks_propensity,
    "clicks-power": clicks_power,
    "clicks-learning": clicks_learning,
    "comparisons": comparisons,
    "fusion": fusion,
    "defaults": defaults_compared,
    "defaults-missed": defaults_missed,
    "speed": speed,
    "letor-map": letor_map,
    "probabilities": probabilities,
    "shapes": shapes,
    "edit": edit_times,
    "scoring-times": scoring_times,
    "arrow-scorer": arrow_scorer,
    "stores": stores,
    "pruning": pruning,
    "purchase-models": purchase_models,
    "many-machines": many_machines,
    "many-machines-checked": many_machines_checked,
    "many-machines-simulated": many_machines_simulated,
    "reading": reading,
    "threads": threads,
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
