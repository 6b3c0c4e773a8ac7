"""What Sculley claims, and what was measured with algorithm 1 as printed."""

from __future__ import annotations

import numpy as np

from papers.claims import Claim, Size, ahead, alike, at_least, at_most, no_gain
from papers.runs import read
from papers.sculley import rare
from papers.sculley.data_size import PRINTED as AS_PRINTED
from papers.sculley.data_size import growth, seconds_of
from papers.sculley.figure1 import LEARNERS, PRINTED, REFERENCE
from papers.sculley.figure2 import excess
from papers.sculley.section34 import REFERENCE as PEGASOS
from papers.sculley.speed import EXACT, LIGHT, STRUCT, times_faster

#: LETOR tasks of the paper; rows and rare topics of its large collection.
TASKS, ROWS, TOPICS = 9, 781_265, 21
RARE = {
    "generated": "sculley.table1",
    "Reuters": "sculley.table1_reuters",
    "IMDB": "sculley.table1_imdb",
}


def claims():
    letor, tried = read("sculley.figure1")["tasks"], read("sculley.section34")["kinds"]
    large = {name: read(result) for name, result in RARE.items()}
    size = read("sculley.data_size")
    curves = read("sculley.figure2")["tasks"]
    speed = read("sculley.speed")["tasks"]
    return [
        no_loss(large),
        equivalent(letor),
        romma(letor),
        seconds(letor),
        perceptrons(tried["as printed"]),
        no_help(tried),
        flat(size),
        faster(
            speed,
            "SVM-light",
            "SPD trains up to 100 times faster than SVM-light.",
            "up to 100 times faster than the SVM-light implementation [7] of RankSVM",
            LIGHT,
            100,
        ),
        faster(
            speed,
            "SVM-struct-rank",
            "SPD trains up to 5 times faster than SVM-struct-rank.",
            "up to 5 times faster than the SVM-struct-rank implementation",
            STRUCT,
            5,
        ),
        Claim(
            "SPD trains more than 150 times faster than SVM-perf.",
            "more than 150 times faster than the SVM-perf-roc implementation",
            "section 5",
            why="SVM-perf is not at hand; our exact RankSVM takes "
            f"{exact_over_spd(size['sizes'][-1]):.0f} times as long as SPD",
        ),
        classifier(large),
        converge(curves),
        degrade(curves),
    ]  # fmt: skip


def rare_sizes(results):
    """Return rows and topics of the largest collection, with the paper's."""
    size = results["parameters"]
    return Size("training rows", size["rows"], ROWS), Size("topics", size["topics"], TOPICS)


def no_loss(large):
    differences = {
        f"{name} {kind}, {collection}": paired
        for collection, comparison in large.items()
        for kind, learners in rare.against_ranksvm(comparison["summary"]).items()
        for name, paired in learners.items()
    }
    worst = min(differences, key=lambda key: differences[key]["difference"])
    return Claim(
        "SPD trains orders of magnitude faster than RankSVM without losing ROC area.",
        "orders-of-magnitude reduction in training time with no observable loss in ranking "
        "performance",
        "table 1",
        "generated, Reuters and IMDB topics; SPD minus RankSVM",
        rare_sizes(large["generated"]),
        f"ROC area {differences[worst]['difference']:+.4f} at worst ({worst}); paper 0 to -0.0002",
        tuple(alike(name, comparison["interval"]) for name, comparison in differences.items()),
    )


def equivalent(letor):
    paired = {
        f"{name}, {task}": comparison["methods"][PRINTED.format(name)]["against_reference"]
        for task, comparison in letor.items()
        for name in LEARNERS
    }
    differences = [comparison["difference"] for comparison in paired.values()]
    return Claim(
        "Three SPD learners rank as well as RankSVM on LETOR.",
        "SPD Pegasos, SPD Passive-Aggressive and SPD SGD-SVM all give results statistically "
        "equivalent to RankSVM with far less cost",
        "figure 1",
        f"LETOR: {', '.join(letor)}; SPD minus RankSVM",
        (Size("tasks", len(letor), TASKS),),
        f"MAP {min(differences):+.4f} to {max(differences):+.4f}; paper: bars",
        tuple(alike(name, comparison["interval"]) for name, comparison in paired.items()),
        own=True,
    )


def below(one):
    """Return the interval of how far a value is below its reference."""
    low, high = one["against_reference"]["interval"]
    return [-high, -low]


def romma(letor):
    methods = {
        task: comparison["methods"][PRINTED.format("ROMMA")] for task, comparison in letor.items()
    }
    difference_text = ", ".join(
        f"{comparison['against_reference']['difference']:+.3f}" for comparison in methods.values()
    )
    return Claim(
        "ROMMA ranks worse than RankSVM.",
        "SPD ROMMA was not competitive",
        "section 4",
        f"LETOR; {REFERENCE} minus ROMMA",
        (Size("tasks", len(letor), TASKS),),
        f"MAP {difference_text} relative to RankSVM; paper: bars",
        tuple(ahead(task, below(comparison)) for task, comparison in methods.items()),
        own=True,
    )


def letor_seconds(letor):
    """Return the CPU seconds of every learner's fit on every task, index included."""
    return [
        task["methods"][PRINTED.format(name)]["fit_seconds"]
        for task in letor.values()
        for name in LEARNERS
    ]


def seconds(letor):
    fit_seconds = letor_seconds(letor)
    return Claim(
        "SPD trains in at most 0.3 CPU seconds on a LETOR task.",
        "The SPD methods each averaged between 0.2 and 0.3 CPU seconds per task for training time",
        "section 4",
        "LETOR; 100,000 steps, index included",
        (Size("tasks", len(letor), TASKS),),
        f"{min(fit_seconds):.3f} to {max(fit_seconds):.3f} s; paper: a laptop of 2009",
        (at_most("slowest median, s", max(fit_seconds), 0.3, source="paper"),),
        own=True,
    )


def faster(speed, program, says, quote, name, bar):
    if not all(name in task["seconds"] for task in speed.values()):
        return Claim(
            says, quote, "section 4", why=f"{program} was not at hand when this was measured"
        )
    times = [times_faster(task, name) for task in speed.values()]
    ours = [times_faster(task, EXACT) for task in speed.values()]
    at_least_text = (
        "more than" if any(name in task["stopped"] for task in speed.values()) else "up to"
    )
    return Claim(
        says,
        quote,
        "section 4",
        "LETOR; one fit, CPU seconds",
        (Size("tasks", len(speed), TASKS),),
        f"{at_least_text} {max(times):.0f} times (paper {bar}); our own exact RankSVM is up to "
        f"{max(ours):.0f} times slower than SPD",
        (at_least("most times faster", max(times), bar, source="paper"),),
        own=True,
    )


def perceptrons(tried):
    names = ("perceptron", "perceptron with margin")
    methods = {
        f"{n}, {task}": comparison["methods"][n]
        for task, comparison in tried.items()
        for n in names
    }
    differences = [comparison["against_reference"]["difference"] for comparison in methods.values()]
    return Claim(
        "Perceptrons, with and without margins, rank worse than Pegasos.",
        "Neither Perceptron nor Perceptron with Margins were competitive methods",
        "section 3.4",
        f"LETOR; {PEGASOS} minus the perceptrons",
        (),
        f"MAP {min(differences):+.3f} to {max(differences):+.3f}; paper: no figure",
        tuple(ahead(name, below(comparison)) for name, comparison in methods.items()),
        own=True,
    )


def no_help(kinds):
    names = {"cross products": "Pegasos, cross products", "ties": "Pegasos with tied pairs"}
    paired = {
        f"{short}, {task}, {kind}": comparison["methods"][name]["against_reference"]
        for kind, tasks in kinds.items()
        for task, comparison in tasks.items()
        for short, name in names.items()
    }
    differences = [comparison["difference"] for comparison in paired.values()]
    return Claim(
        "Neither cross products of features nor tied pairs improve the ranking.",
        "cross-product feature-vectors ... gave no improvement in preliminary trials. Our efforts "
        "to include pairs with ties ... yielded no additional benefit",
        "section 3.4",
        "LETOR; minus Pegasos without, as printed and with our defaults",
        (),
        f"MAP {min(differences):+.4f} to {max(differences):+.4f}; paper: no figure",
        tuple(no_gain(name, comparison["interval"]) for name, comparison in paired.items()),
        own=True,
    )


def exact_over_spd(entry):
    """Return the seconds of RankSVM over those of the slowest learner as printed."""
    return entry["ranksvm"]["median"] / seconds_of(entry, AS_PRINTED)["median"]


def flat(size):
    entries, letor = size["sizes"], size["letor"]
    power = growth(entries, lambda entry: seconds_of(entry, AS_PRINTED))
    small, large = (seconds_of(one, AS_PRINTED)["median"] for one in (letor, entries[-1]))
    return Claim(
        "SPD takes no more time on a large collection than on LETOR.",
        "SPD methods were not affected by this increase in scale, using no more CPU time on this "
        "task than on the smaller LETOR tasks",
        "section 5",
        f"rows of RCV1's shape, and {letor['rows']:,} dense rows of LETOR's; the slowest learner "
        "as printed",
        (Size("rows", entries[-1]["rows"], ROWS),),
        f"{large:.3f} s against {small:.3f} s, time grows as rows^{power:.2f}; paper .22 s against "
        ".2 to .3 s",
        (
            at_most("seconds over those on LETOR's shape", large / small, 1.0, source="paper"),
            at_most("exponent of time in rows", power, 0.1),
        ),
    )


def classifier(large):
    paired = {
        f"{name}, {collection}": comparison["summary"][name]["against_classifier"]
        for collection, comparison in large.items()
        for name in comparison["summary"]
        if name != rare.CLASSIFIER
    }
    mean = {
        collection: np.mean(
            [comparison["difference"] for key, comparison in paired.items() if collection in key]
        )
        for collection in large
    }
    mean_text = ", ".join(f"{value:+.4f} ({name})" for name, value in mean.items())
    return Claim(
        "All ranking methods beat a tuned binary SVM in ROC area.",
        "The ROCA performance of all ranking methods exceeded that of a binary-class SVM with "
        "tuned class-specific regularization parameters",
        "section 5",
        "the same topics",
        rare_sizes(large["generated"]),
        f"ROC area {mean_text} on average; paper: no figure",
        tuple(ahead(name, comparison["interval"]) for name, comparison in paired.items()),
    )


def converge(curves):
    excesses = {
        f"{name}, {task.split(',')[0]}": excess(task_curves, name, 10**6)
        for task, task_curves in curves.items()
        for name in ("SGD-SVM", "Pegasos")
    }
    return Claim(
        "SGD-SVM and Pegasos reach the optimum on training data within a million steps.",
        "Both SPD SGD-SVM and SPD Pegasos converge to stable, apparently optimal values on "
        "training data within 10^6 iterations",
        "figure 2",
        "a fold of OHSUMED, and generated lists of hp2003's shape",
        (),
        f"{100 * min(excesses.values()):.2g} to {100 * max(excesses.values()):.2g} % above the "
        "certified optimum; paper: curves",
        tuple(at_most(f"share above the optimum, {k}", v, 0.01) for k, v in excesses.items()),
    )


def degrade(curves):
    checks, rises = [], []
    for task, task_curves in curves.items():
        for name in ("passive-aggressive", "ROMMA, plain"):
            values = [
                excess(task_curves, name, step) for step in task_curves["curves"][name]["step"]
            ]
            rise = (1 + values[-1]) / (1 + min(values))
            checks.append(at_least(f"last J over best J, {name}, {task.split(',')[0]}", rise, 1.01))
            rises.append(rise)
    most = f"{max(rises):.3g}" if max(rises) < 1e6 else "more than 10^6"
    return Claim(
        "Passive-aggressive and ROMMA get worse with more training, ROMMA rapidly.",
        "their performance does degrade with additional training, with SPD ROMMA degrading "
        "especially rapidly",
        "figure 2",
        "the same; objective at the end over its best",
        (),
        f"{min(rises):.3g} to {most} times; paper: curves",
        tuple(checks),
    )
