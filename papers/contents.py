"""Order and headings of the results pages: what each paper is, and its results."""

from __future__ import annotations

from typing import NamedTuple

INTRODUCTION = """
# Results

This page lists what five papers claim and whether our runs confirm it. Each paper has a page with
the paper's words, what we ran, and the tables, figures and commands behind its verdicts.
[The last page](results/instead.md) compares rankine with what a user would pick instead, and
[a list](results/stored.md) says when every stored result was measured and with which code.
"""

LEGEND = """
*yes* is reproduced, *open* undecided, *no* not reproduced, *untested* cannot be tested here;
● is on the paper's own data, ○ on other data ([the rule](#the-rule)).
"""

RULE = """
## The rule

● is a verdict on the paper's own data, ○ one on a public or generated collection, because the
paper's data are not available. A claim is split into checks. A check holds, fails, or is undecided
because its interval leaves both open.

- **reproduced**: every check holds, at no less than the paper's sizes.
- **partly**: some checks hold, or all hold at a smaller size, which is named.
- **undecided**: no check holds and none fails; the data are too few.
- **not**: no check holds, and one or more fail.
- **cannot be tested here**: data or programs are missing.

Differences in quality are decided by 95 % intervals over queries, topics, logs or problems. Two
values of MAP, NDCG or ROC area are *as good* if the interval is within ±0.01, or within 5 % of the
value where that is less; one is *better* if the interval is above 0. An exponent of time is
*linear* up to 1.1 and *linearithmic* up to 1.2. Every other bar comes from the paper or is ours,
and the table of checks says which. Parameters are chosen on training or validation data, never on
test data. Times are CPU seconds of one thread, the median of the repetitions.

`lam` and `gamma` are the symbols of the respective paper
([conventions](conventions.md#from-a-papers-symbols-to-ours) converts them to `l2`), `C` is SPD's
`aggressiveness`, and `n_iter` in a stored setting is `n_steps`. `make bench` runs every result at a
quick size, `make bench-full` at the full size, and `make results` writes these pages. The line
below a result has its command, and with it the sizes that were run.
"""


class Paper(NamedTuple):
    """One page: the folder of its results, its heading, its source, and what it is about."""

    name: str
    heading: str
    citation: str
    about: str
    results: tuple[str, ...]


CONTENTS = (
    Paper(
        "sculley",
        "Sculley: stochastic pairwise descent",
        "D. Sculley, *Large Scale Learning to Rank*, NIPS workshop on advances in ranking, 2009.",
        "Stochastic steps on sampled pairs instead of an exact RankSVM.",
        (
            "sculley.figure1",
            "sculley.speed",
            "sculley.section34",
            "sculley.table1",
            "sculley.table1_reuters",
            "sculley.table1_imdb",
            "sculley.figure2",
            "sculley.samplers",
            "sculley.data_size",
        ),
    ),
    Paper(
        "airola",
        "Airola et al.: RankSVM in linearithmic time",
        "A. Airola, T. Pahikkala, T. Salakoski, *An Improved Training Algorithm for the Linear "
        "Ranking Support Vector Machine*, 2011.",
        "An oracle for the pairwise hinge loss at a cost of O(ms + m log m) for any labels, by "
        "binary search trees. The paper's 512,000 rows are RCV1's, which is not available; "
        "generated rows and Reuters-21578 are used instead.",
        (
            "airola.figure1",
            "airola.iterations",
            "airola.memory",
            "airola.peers",
        ),
    ),
    Paper(
        "tas",
        "Tas: eigenvalues and momentum",
        "E. Tas, *Large Scale Ranking Using Stochastic Gradient Descent*, 2022.",
        "Heavy ball on the pairwise least-squares loss, with step and momentum made from estimates "
        "of the extreme eigenvalues (eGDM), compared with fixed ones (GDM). The paper's 800,000 "
        "rows are RCV1's, which is not available; generated rows and Reuters-21578 are used "
        "instead.",
        (
            "tas.spectrum",
            "tas.gamma",
            "tas.large",
            "tas.stability",
        ),
    ),
    Paper(
        "stevens",
        "Stevens et al.: sparse ranking functions",
        "M. Stevens, S. Bengio, Y. Singer, *Efficient Learning of Sparse Ranking Functions*, 2013.",
        "Coordinate descent on the domination loss with an l1 penalty.",
        (
            "stevens.table11",
            "stevens.table12",
            "stevens.generator",
            "stevens.table13",
            "stevens.sparsity",
            "stevens.epoch_cost",
            "stevens.l1_time",
            "stevens.convergence",
        ),
    ),
    Paper(
        "freno",
        "Freno et al.: one pass over lists",
        "A. Freno, M. Saveski, R. Jenatton, C. Archambeau, *One-Pass Ranking Models for "
        "Low-Latency Product Recommendations*, KDD 2015.",
        "One pass of listwise learning with penalties that make models sparse. The paper's "
        "purchase log is not public: ours is generated.",
        (
            "freno.figure2",
            "freno.against_ranksvm",
            "freno.table1",
            "freno.figure3",
            "freno.deltas",
            "freno.acquisition",
            "freno.after_training",
            "freno.table2",
        ),
    ),
    Paper(
        "instead",
        "What a user would pick instead",
        "rankine's rankers and other libraries on the same rows in one run.",
        "Peers are taken from the Python that `RANKINE_PEERS_PYTHON` names. Each section "
        "states where trees win on quality, and by how much.",
        (
            "instead.real_sets",
            "instead.everywhere",
            "instead.mslr_like",
            "instead.letor_like",
            "instead.letor_fold",
            "instead.click_log",
        ),
    ),
)
