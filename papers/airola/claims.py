"""What Airola et al. claim, and what was measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from papers.airola.figure1 import growth
from papers.airola.iterations import OURS, PLAIN, range_over_rows, slope
from papers.airola.memory import law
from papers.claims import Claim, Size, at_least, at_most, margin_of
from papers.runs import read

#: Rows of the paper's largest training set, and what it took there, in hours.
ROWS, TREE, SVM_RANK, PAIRS = 512_000, 0.3, 83, 122
#: Rows at which the paper's squared hinge (PRSVM) ends.
SQUARED = 8_000
#: "Orders of magnitude" are at least two.
ORDERS = 100
#: At most this exponent of time is linearithmic; the least that is quadratic.
LINEARITHMIC, QUADRATIC = 1.2, 1.8


def claims():
    results = read("airola.figure1")
    name, entries = next(iter(results["tasks"].items()))
    result = [
        complexity(results["tasks"]),
        calls(entries),
        hours(entries, results["SVMrank"]),
        orders_of_magnitude(entries, results["SVMrank"]),
        same_performance(entries, results["SVMrank"]),
        iterations(read("airola.iterations")),
    ]
    result = [replace(claim, data=f"{name} {claim.data}", own=name == "RCV1") for claim in result]
    return [*result, memory(read("airola.memory")["sizes"])]


def complexity(tasks):
    sets = dict(islice(tasks.items(), 2))
    first, *_ = tasks.values()
    fits = {name: growth(entries, "fit", "tree", "seconds") for name, entries in sets.items()}
    call = {name: growth(entries, "oracle", "tree") for name, entries in sets.items()}
    return Claim(
        "Training takes linearithmic time for any utilities.",
        "O(ms + m log(m)) complexity even in the most general case, where arbitrary real-valued "
        "utility scores are allowed",
        "section 1",
        "rows, with distinct utilities and with most of them 0",
        (Size("rows", first[-1]["rows"], ROWS),),
        f"training grows as rows^{max(fits.values()):.2f}, a call as rows^{max(call.values()):.2f} "
        "at most; the paper gives no exponent",
        (
            *(at_most(f"exponent of training, {n}", v, LINEARITHMIC) for n, v in fits.items()),
            *(at_most(f"exponent of a call, {n}", v, LINEARITHMIC) for n, v in call.items()),
        ),
    )


def calls(entries):
    pairs = [entry for entry in entries if "pairs" in entry["oracle"]][-1]
    times = pairs["oracle"]["pairs"]["median"] / pairs["oracle"]["tree"]["median"]
    slope = growth(entries, "oracle", "pairs")
    return Claim(
        "A call of the oracle scales far better by the tree than over the pairs.",
        "the proposed method scales much better than the one based on iterating over the pairs of "
        "training examples",
        "section 4, figure 1",
        "rows, at the scores that training ends with",
        (Size("rows for the pairs", pairs["rows"], ROWS),),
        f"a call over pairs takes {times:,.0f} times as long and grows as rows^{slope:.2f}; the "
        "paper plots both",
        (
            at_least("exponent of a call over pairs", slope, QUADRATIC),
            at_least(f"times as long at {pairs['rows']:,} rows", times, 100),
        ),
    )


def hours(entries, ranked):
    last, paired = entries[-1], with_pairs(entries)
    seconds = last["fit"]["tree"]["seconds"]
    return Claim(
        "Training on 512,000 rows takes minutes with the tree and days without.",
        "With 512000 training examples training SVMrank took 83 hours, and training PairRSVM took "
        "122 hours, whereas training TreeRSVM took only 18 minutes",
        "section 4",
        "rows",
        (
            Size("rows for the tree", last["rows"], ROWS),
            Size("for SVMrank", ranked[-1]["rows"], ROWS),
            Size("for the pairs", paired["rows"], ROWS),
        ),
        f"{seconds:.2g} s with the tree; SVMrank {ranked[-1]['seconds']:.0f} s and the pairs "
        f"{paired['fit']['pairs']['seconds']:.0f} s at the sizes named",
        (at_most("seconds of training with the tree", seconds, 3600 * TREE, source="paper"),),
    )


def with_pairs(entries):
    """Return the largest size trained over pairs."""
    return [entry for entry in entries if "pairs" in entry["fit"]][-1]


def orders_of_magnitude(entries, ranked):
    last, paired = ranked[-1], with_pairs(entries)
    (same,) = (entry for entry in entries if entry["rows"] == last["rows"])
    slower = last["seconds"] / same["fit"]["tree"]["seconds"]
    times = paired["fit"]["pairs"]["seconds"] / paired["fit"]["tree"]["seconds"]
    return Claim(
        "The tree trains orders of magnitude faster than SVMrank and than all pairs.",
        "TreeRank achieves orders of magnitude faster training times than the other alternatives",
        "section 4, figure 1",
        "rows; SVMrank's reading of its file included",
        (
            Size("rows for SVMrank", last["rows"], ROWS),
            Size("for the pairs", paired["rows"], ROWS),
        ),
        f"SVMrank takes {slower:,.0f} times as long (paper {SVM_RANK / TREE:,.0f}), the pairs "
        f"{times:,.0f} times (paper {PAIRS / TREE:,.0f})",
        (
            at_least("SVMrank's time over ours", slower, ORDERS, source="paper's words"),
            at_least("the pairs' time over the tree's", times, ORDERS, source="paper's words"),
        ),
    )


def same_performance(entries, ranked):
    (same,) = (entry for entry in entries if entry["rows"] == ranked[-1]["rows"])
    svm_rank = abs(ranked[-1]["test_error"] - same["fit"]["tree"]["test_error"])
    both = [entry for entry in entries if entry["rows"] <= SQUARED]
    apart = [
        abs(entry["fit"]["tree"]["test_error"] - entry["fit"]["squared hinge"]["test_error"])
        for entry in both
    ]
    value = both[-1]["fit"]["tree"]["test_error"]
    return Claim(
        "TreeRSVM, SVMrank and the squared hinge rank equally well.",
        "TreeRSVM and SVMrank have similar performance as expected, as does PRSVM which optimizes "
        "a squared version of the pairwise hinge loss",
        "section 4, figure 1",
        f"rows; pairwise test error; squared hinge up to {SQUARED:,} rows, where the paper's ends",
        (
            Size("rows with the squared hinge", both[-1]["rows"], SQUARED),
            Size("for SVMrank", ranked[-1]["rows"], ROWS),
        ),
        f"at {both[-1]['rows']:,} rows {value:.4f} with the hinge and {apart[-1]:.4f} apart with "
        "the squared hinge; the paper's curves coincide",
        (
            at_most("SVMrank's test error apart from ours", svm_rank, margin_of(value), ".4f"),
            at_most("largest difference of the squared hinge", max(apart), margin_of(value), ".4f"),
        ),
    )


def iterations(results):
    grid, rows = results["grid"], results["by_rows"]
    counts = [entry["iterations"][PLAIN] for entry in rows]
    return Claim(
        "Iterations grow at most as 1/(λε) and not with the rows.",
        "needs O(1/(λε)) iterations to converge to ε-accurate solution for convex nonsmooth loss "
        "functions, independent of the training set size",
        "section 3",
        "rows; the paper's cutting planes without line search, from weights of 0",
        (Size("rows", rows[-1]["rows"], ROWS),),
        f"iterations grow as (1/(λε))^{slope(grid, PLAIN):.2f}, and lie between {min(counts)} and "
        f"{max(counts)} for all numbers of rows; with our line search as "
        f"(1/(λε))^{slope(grid, OURS):.2f}",
        (
            at_most("exponent of iterations in 1/(λε)", slope(grid, PLAIN), 1.0, source="paper"),
            at_most("most iterations over fewest, by rows", range_over_rows(rows, PLAIN), 2.0),
        ),
    )


def memory(entries):
    slope, constant = law(entries, "hinge")
    return Claim(
        "Memory grows linearly with the data.",
        "all the methods other than PRSVM have O(ms) memory complexity due to cost of storing the "
        "data matrix",
        "section 4",
        "generated rows",
        (Size("rows", entries[-1]["rows"], ROWS),),
        f"{slope:.2f} times the data and {constant:.0f} MiB; the paper gives no figure",
        (at_most("slope of peak memory in the data", slope, 2.0),),
    )
