"""Figure 3: recall against the number of weights, after one pass and after two."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
from benchmarks.common.drawing import COLOURS, axis, label_lines, panels
from benchmarks.common.timing import spread
from benchmarks.common.workloads import AS_PRINTED

from papers.freno.log import Log
from papers.freno.methods import TESTED, TRAINED, Chooser, described, judge
from papers.runs import table
from rankine import ElasticRanker

TITLE = "Figure 3: recall against the number of weights"
SMOKE = {"seeds": [1, 2], "lists": 50, "steps": 3}
QUICK = {"seeds": [1, 2], "lists": 1000, "steps": 12}
FULL = {"seeds": [1, 2, 3, 4], "lists": 10_000, "steps": 16}
SOLVERS = ("PSGD", "FOBOS", "RDA", "TGD", "FOBOS, no l2")
MEASURES = ("recall@1", "recall@4")
PASSES = ("one pass", "two passes")
#: Weakest penalty of a curve as a share of the one that leaves nothing.
WEAKEST = 1e-4
NEAR = 0.99


def curve(setting, days, test, steps):
    """Weights and recall of models of every size, smallest first; ``days`` are read once."""
    kind = setting["solver"]
    ranker = ElasticRanker(**{**AS_PRINTED, "random_state": 1, "metric": "recall@1", **setting})
    path = ranker.path(days, solvers=(kind,), n_steps=steps, min_ratio=WEAKEST)
    points = []
    for index in range(len(path.l1)):
        coef = path.weights[[index]].toarray().ravel()
        if coef.any():
            values = judge(test.X @ coef, test, MEASURES)
            points.append({"weights": int(np.count_nonzero(coef)), **values})
    return sorted(points, key=lambda point: point["weights"])


def near_best(points, best, measure):
    """Return the fewest weights that reach ``NEAR`` of ``best``, or 0."""
    enough = [p["weights"] for p in points if p[measure] >= NEAR * best]
    return min(enough, default=0)


def roughness(points, measure):
    """Return the sum of falls of a curve in per cent of its rise; 0 for a monotone curve."""
    values = np.array([p[measure] for p in points])
    top = values[: int(np.argmax(values)) + 1]
    falls = np.maximum(-np.diff(top), 0).sum()
    return float(100 * falls / max(np.ptp(values), 1e-12))


def one_log(seed, lists, steps):
    """Compute all curves of one log."""
    log = Log(seed, lists, TRAINED + TESTED)
    chooser = Chooser(log)
    days, test = log.between(1, TRAINED), log.between(TRAINED + 1, TRAINED + TESTED).together()
    curves = {}
    for name in SOLVERS:
        setting, _ = chooser.choose(name)
        curves[name] = {
            "setting": described(setting),
            PASSES[0]: curve(setting, days, test, steps),
            PASSES[1]: curve(setting, days.twice(), test, steps),
        }
        print(f"log {seed}: {name}", file=sys.stderr, flush=True)
    return curves


def measure(seeds, lists, steps):
    """Measure all logs and summarise the curves."""
    return gathered([one_log(seed, lists, steps) for seed in seeds], seeds, lists)


def gathered(logs, seeds, lists):
    """Merge stored results of several logs."""
    summary = {}
    for passes in PASSES:
        for name in SOLVERS:
            curves = [log[name][passes] for log in logs]
            peaks = [max(p["recall@1"] for p in points) for points in curves]
            tops = [max(p["recall@1"] for o in SOLVERS for p in log[o][passes]) for log in logs]
            pairs = list(zip(curves, peaks, tops, strict=True))
            summary[f"{name}, {passes}"] = {
                "best": spread(peaks),
                "near_own": spread(
                    near_best(c, log_result, "recall@1") for c, log_result, _ in pairs
                ),
                "near_all": [near_best(c, top, "recall@1") for c, _, top in pairs],
                "roughness": spread(roughness(c, "recall@1") for c in curves),
            }
    return {
        "seeds": seeds,
        "repetitions": len(seeds),
        "lists": lists,
        "logs": logs,
        "summary": summary,
    }


def draw(results):
    """Draw recall minus the best of RDA in one pass, log by log."""
    logs = results["logs"]
    figure, axes = panels(2, 2, width=4.6, height=3.2)
    styles = ("-", "-", "-", "--", ":")
    for ax, (passes, metric) in zip(axes, product(PASSES, MEASURES), strict=True):
        base = [max(p[metric] for p in log["RDA"][PASSES[0]]) for log in logs]
        for name, colour, style in zip(SOLVERS, COLOURS, styles, strict=False):
            if all(log[name][passes] == log["FOBOS"][passes] for log in logs) and name != "FOBOS":
                continue  # the same model, and the same line
            for k, log in enumerate(logs):
                points = log[name][passes]
                ax.plot(
                    [p["weights"] for p in points],
                    [p[metric] - base[k] for p in points],
                    style,
                    color=colour,
                    linewidth=1.4,
                    alpha=0.9 if k == 0 else 0.3,
                    label=name if k == 0 else f"_{name}",
                )
        label = metric.replace("recall", "R")
        ax.axhline(0.0, color="black", lw=0.8)
        axis(ax, "weights that are not zero", f"{label} minus RDA's best, one pass",
             title=f"{label}, {passes}", logx=True)  # fmt: skip
        label_lines(ax, apart=0.08)
    return figure


def markdown(results):
    summary = results["summary"]
    rows = []
    for name, result in summary.items():
        reach = [n for n in result["near_all"] if n]
        all_best = "never" if not reach else f"{np.median(reach):,.0f}"
        if reach and len(reach) < len(result["near_all"]):
            all_best += f" ({len(reach)} of {len(result['near_all'])} logs)"
        rows.append(
            [
                name,
                f"{result['best']['median']:.4f}",
                f"{result['near_own']['median']:,.0f}",
                all_best,
                f"{result['roughness']['median']:.1f} %",
            ]
        )
    lists = results["lists"]
    return "\n\n".join(
        [
            (
                f"{len(results['seeds'])} logs of {lists * TRAINED:,} training lists, as in table "
                "1 "
                "(each a line; the first is drawn darker; a solver whose models are FOBOS's is "
                "not drawn again). Each optimiser has the step, objective "
                "and "
                "loss that the last training days chose, and grows its curve by `l1` (`theta` for "
                "PSGD). Recall is on the test days. *99 %* is the fewest weights that reach 99 % "
                "of "
                "the best R@1: of the optimiser's own curve, and of the best curve of all. "
                "*Roughness* is the sum of falls of a curve on its way up, in per cent of its rise."
            ),
            table(
                ["optimiser", "best R@1", "weights for 99 % of own", "of all", "roughness"], rows
            ),
            _answers(summary, list(results["logs"][0])),
        ]
    )


def _answers(summary, solvers):
    answer = {n: summary[f"{n}, {PASSES[0]}"] for n in solvers}
    two = {n: summary[f"{n}, {PASSES[1]}"] for n in solvers}
    smallest = min(solvers, key=lambda n: answer[n]["near_own"]["median"])
    largest = max(solvers, key=lambda n: answer[n]["near_own"]["median"])
    rough = {n: answer[n]["roughness"]["median"] for n in solvers}
    roughest, smoothest = max(rough, key=rough.get), min(rough, key=rough.get)
    share = answer[largest]["near_own"]["median"] / answer[smallest]["near_own"]["median"]
    gains = {n: 100 * (two[n]["best"]["median"] / answer[n]["best"]["median"] - 1) for n in rough}
    return (
        "**Question (ii), which technique trades quality for sparsity best in one pass?** "
        f"{smallest} needs the fewest weights for 99 % of its best R@1 "
        f"({answer[smallest]['near_own']['median']:,.0f}), {largest} {share:.1f} times as many. "
        f"The smoothest curve is {smoothest}'s (falls of {rough[smoothest]:.1f} % of the rise), "
        f"the roughest {roughest}'s ({rough[roughest]:.1f} %).\n\n"
        "**Question (iii), what does a second pass change?** The best R@1 moves by "
        + ", ".join(f"{gain:+.1f} % ({n})" for n, gain in gains.items())
        + "."
    )
