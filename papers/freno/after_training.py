"""Recall on the days after training: with the old model, and with one that is kept up to date."""

from __future__ import annotations

import sys

import numpy as np
from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels
from benchmarks.common.timing import cpu_seconds, spread
from benchmarks.common.workloads import AS_PRINTED

from papers.freno.log import Log
from papers.freno.methods import TRAINED, Chooser, judge, learn
from papers.runs import table
from rankine import ElasticRanker

TITLE = "Days after training, with and without retraining"
SMOKE = {"seeds": [1, 2], "lists": 50, "days": 2}
QUICK = {"seeds": [1, 2, 3], "lists": 1000, "days": 14}
FULL = {"seeds": [1, 2, 3, 4, 5], "lists": 3000, "days": 21}
FROZEN, CONTINUED, STARTED, AFRESH = (
    "never retrained",
    "partial_fit on each day",
    "each day from yesterday's model",
    "each day from the last 20 days",
)
WAYS = (FROZEN, CONTINUED, STARTED, AFRESH)
MEASURE = "recall@1"


def one_log(seed, lists, days):
    """Return R@1 of each update strategy for each day, judged before that day is learned."""
    log = Log(seed, lists, TRAINED + days)
    setting, _ = Chooser(log).choose("RDA")
    frozen = learn(setting, log.between(1, TRAINED))
    new_model = frozen
    started = frozen
    continued = ElasticRanker(**{**AS_PRINTED, "random_state": 1, **setting})
    for block in log.between(1, TRAINED):
        continued.partial_fit(block)
    values = {strategy: [] for strategy in WAYS}
    seconds = {strategy: [] for strategy in WAYS[1:]}
    for day in range(TRAINED + 1, TRAINED + days + 1):
        data = log.day(day)
        models = dict(zip(WAYS, (frozen, continued, started, new_model), strict=True))
        for strategy, model in models.items():
            values[strategy].append(judge(model.predict(data), data, [MEASURE])[MEASURE])
        today = log.between(day, day)
        spent, _ = cpu_seconds(lambda d=data: continued.partial_fit(d))
        seconds[CONTINUED].append(spent)
        spent, started = cpu_seconds(lambda s=started, t=today: again(setting, t, s))
        seconds[STARTED].append(spent)
        window = log.between(day - TRAINED + 1, day)
        spent, new_model = cpu_seconds(lambda w=window: learn(setting, w))
        seconds[AFRESH].append(spent)
    print(f"log {seed}", file=sys.stderr, flush=True)
    return {"values": values, "seconds": {w: float(np.median(s)) for w, s in seconds.items()}}


def again(setting, days, before):
    """Train on some days, starting from an older model."""
    ranker = ElasticRanker(**{**AS_PRINTED, "random_state": 1, **setting})
    return ranker.fit(days, coef_init=before.to_model())


def measure(seeds, lists, days):
    """Measure all logs, day by day."""
    logs = [one_log(seed, lists, days) for seed in seeds]
    return {
        "seeds": seeds,
        "repetitions": len(seeds),
        "lists": lists,
        "days": days,
        "by_day": {
            strategy: [spread(log["values"][strategy][k] for log in logs) for k in range(days)]
            for strategy in WAYS
        },
        "seconds": {w: spread(log["seconds"][w] for log in logs) for w in WAYS[1:]},
        "logs": [log["values"] for log in logs],
    }


def relative(results, way):
    """Return R@1 in per cent of that of a model trained from scratch each day."""
    ratios = [
        100 * np.asarray(log[way]) / np.maximum(log[AFRESH], 1e-12) for log in results["logs"]
    ]
    return [spread(values) for values in np.transpose(ratios)]


def draw(results):
    figure, (ax,) = panels(1, 1, width=6.6, height=3.4)
    days = range(1, results["days"] + 1)
    for strategy, colour in zip(WAYS, COLOURS, strict=False):
        line(ax, days, relative(results, strategy), strategy, colour, marker=None)
    axis(ax, "days after training", "R@1 in % of the model learned afresh")
    label_lines(ax)
    ax.set_xticks([day for day in days if day % 7 == 1 or day == results["days"]])
    return figure


def markdown(results):
    last = min(7, results["days"])
    rows = []
    for strategy in WAYS:
        logs = [np.asarray(log[strategy]) for log in results["logs"]]
        parts = [
            [log[0] for log in logs],
            [log[:last].mean() for log in logs],
            [log[-last:].mean() for log in logs],
        ]
        seconds = results["seconds"].get(strategy)
        cells = "" if seconds is None else f"{seconds['median']:.3f}"
        rows.append([strategy, *(f"{np.median(part):.4f}" for part in parts), cells])
    first, final = (float(np.mean([log[FROZEN][k] for log in results["logs"]])) for k in (0, -1))
    by_name = {w: float(np.mean([log[w][-last:] for log in results["logs"]])) for w in WAYS}
    best = max(by_name, key=by_name.get)
    return "\n\n".join(
        [
            (
                f"{len(results['seeds'])} logs of {results['lists'] * TRAINED:,} training lists as "
                "in "
                f"table 1, then {results['days']} more days whose weights go on drifting (a "
                "weight's "
                "correlation with itself a day later is 0.97). RDA with the parameters that the "
                "last "
                "training days chose. Every day is judged before anything learns from it. The "
                "figure is "
                "relative to the model learned afresh each day from the last 20 days, day by day, "
                "since "
                "days differ more than models."
            ),
            table(
                ["model", "R@1, first day", "first week", "last week", "CPU s a day"],
                rows,
            ),
            (
                f"The model that is never retrained loses {100 * (1 - final / first):.0f} % of its "
                f"R@1 in {results['days']} days ({first:.4f} to {final:.4f}); kept up to date "
                f"({best}) it ends at {by_name[best]:.4f} in the last week. Retraining is what one "
                "pass "
                "is for: the CPU seconds are those of a day's work on one core."
            ),
        ]
    )
