"""What Airola et al. claim, beside what was measured."""

from __future__ import annotations

from benchmarks.airola.figure1 import growth
from benchmarks.airola.memory import law
from benchmarks.claims import MARGIN, Claim, Size, at_least, at_most
from benchmarks.papers import read
from benchmarks.timing import exponent

#: Rows of the paper's largest training set, and what it took there, in hours.
ROWS, TREE, SVM_RANK, PAIRS = 512_000, 0.3, 83, 122
#: At most this exponent of time is linearithmic; the least that is quadratic.
LINEARITHMIC, QUADRATIC = 1.2, 1.8


def claims():
    entries = read("airola.figure1")["tasks"]["generated"]
    peers = read("airola.peers")["sizes"]
    return [
        complexity(entries),
        calls(entries),
        hours(entries, peers),
        orders_of_magnitude(entries, peers),
        same_performance(entries, peers),
        iterations(read("airola.iterations")),
        memory(read("airola.memory")["sizes"]),
    ]


def complexity(entries):
    fit = growth(entries, "fit", "tree", "seconds")
    call = growth(entries, "oracle", "tree")
    return Claim(
        "O(ms + m log(m)) complexity even in the most general case, where arbitrary real-valued "
        "utility scores are allowed",
        "section 1",
        "generated rows",
        (Size("rows", entries[-1]["rows"], ROWS),),
        f"time grows as rows^{fit:.2f} in training, rows^{call:.2f} in a call; the paper gives no "
        "exponent",
        (
            at_most("exponent of training time", fit, LINEARITHMIC),
            at_most("exponent of a call", call, LINEARITHMIC),
        ),
    )


def calls(entries):
    pairs = [entry for entry in entries if "pairs" in entry["oracle"]][-1]
    times = pairs["oracle"]["pairs"]["median"] / pairs["oracle"]["tree"]["median"]
    slope = growth(entries, "oracle", "pairs")
    return Claim(
        "the proposed method scales much better than the one based on iterating over the pairs of "
        "training examples in subgradient and loss evaluations",
        "section 4, figure 1",
        "generated rows; both oracles at the same scores",
        (Size("rows for the pairs", pairs["rows"], ROWS),),
        f"a call over pairs takes {times:,.0f} times as long at {pairs['rows']:,} rows and grows "
        f"as rows^{slope:.2f}; the paper plots both",
        (
            at_least("exponent of a call over pairs", slope, QUADRATIC),
            at_least(f"times as long at {pairs['rows']:,} rows", times, 100),
        ),
    )


def hours(entries, peers):
    last = entries[-1]
    taken = last["fit"]["tree"]["seconds"]
    others = min(slow["rows"] for slow in as_far_as_it_goes(entries, peers))
    return Claim(
        "With 512000 training examples training SVMrank took 83 hours, and training PairRSVM took "
        "122 hours, whereas training TreeRSVM took only 18 minutes in the same setting",
        "section 4",
        "generated rows",
        (
            Size("rows for the tree", last["rows"], ROWS),
            Size("rows for the other two", others, ROWS),
        ),
        f"{taken:.2g} s; the paper's {60 * TREE:.0f} min were on a processor of 2006",
        (at_most("seconds of training with the tree", taken, 3600 * TREE),),
    )


def as_far_as_it_goes(entries, peers):
    """The largest sizes of SVMrank and of training over pairs."""
    ranked = [entry for entry in peers if "SVMrank" in entry["methods"]][-1]
    return ranked, [entry for entry in entries if "pairs" in entry["fit"]][-1]


def orders_of_magnitude(entries, peers):
    ranked, paired = as_far_as_it_goes(entries, peers)
    ours, theirs = (ranked["methods"][name]["seconds"]["median"] for name in
                    ("rankine, hinge", "SVMrank"))  # fmt: skip
    fits = paired["fit"]
    times = fits["pairs"]["seconds"] / fits["tree"]["seconds"]
    return Claim(
        "TreeRank achieves orders of magnitude faster training times than the other alternatives",
        "section 4, figure 1",
        "generated rows, as many as the slow ones manage in the time given",
        (
            Size("rows for SVMrank", ranked["rows"], ROWS),
            Size("rows for the pairs", paired["rows"], ROWS),
        ),
        f"SVMrank takes {theirs / ours:,.0f} times as long (paper {SVM_RANK / TREE:,.0f}), the "
        f"pairs {times:,.0f} times (paper {PAIRS / TREE:,.0f})",
        (
            at_least("SVMrank's time over ours", theirs / ours, 100),
            at_least("the pairs' time over the tree's", times, 100),
        ),
    )


def same_performance(entries, peers):
    ranked = as_far_as_it_goes(entries, peers)[0]["methods"]
    apart = abs(ranked["SVMrank"]["test_error"] - ranked["rankine, hinge"]["test_error"])
    last = entries[-1]["fit"]
    hinge, squared = last["tree"]["test_error"], last["squared hinge"]["test_error"]
    return Claim(
        "TreeRSVM and SVMrank have similar performance as expected, as does PRSVM which optimizes "
        "a squared version of the pairwise hinge loss",
        "section 4, figure 1",
        "generated rows; pairwise test error",
        (Size("rows", entries[-1]["rows"], ROWS),),
        f"hinge {hinge:.4f}, squared hinge {squared:.4f}; the paper plots curves that coincide",
        (
            at_most("SVMrank's test error apart from ours", apart, MARGIN, ".4f"),
            at_most("the squared hinge's apart from the hinge's", abs(hinge - squared), MARGIN,
                    ".4f"),
        ),
    )  # fmt: skip


def iterations(results):
    grid, rows = results["grid"], results["by_rows"]
    slope = exponent([1 / (g["lam"] * g["tol"]) for g in grid], [g["iterations"] for g in grid])
    counts = [entry["iterations"] for entry in rows]
    return Claim(
        "needs O(1/(λε)) iterations to converge to ε-accurate solution for convex nonsmooth loss "
        "functions, independent of the training set size",
        "section 3",
        "generated rows",
        (Size("rows", rows[-1]["rows"], ROWS),),
        f"iterations grow as (1/(λε))^{slope:.2f}, and lie between {min(counts)} and "
        f"{max(counts)} for all numbers of rows",
        (
            at_most("exponent of iterations in 1/(λε)", slope, 1.0),
            at_most("most iterations over fewest, by rows", max(counts) / min(counts), 2.0),
        ),
    )


def memory(entries):
    slope, constant = law(entries, "hinge")
    return Claim(
        "all the methods other than PRSVM have O(ms) memory complexity due to cost of storing the "
        "data matrix",
        "section 4",
        "generated rows",
        (Size("rows", entries[-1]["rows"], ROWS),),
        f"{slope:.2f} times the data and {constant:.0f} MiB; the paper gives no figure",
        (at_most("slope of peak memory in the data", slope, 2.0),),
    )
