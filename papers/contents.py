"""Order and headings of the results pages: what each paper is, and its results."""

from __future__ import annotations

from typing import NamedTuple

INTRODUCTION = """
# Results

This page lists what five papers claim, what we ran to test it, and what came out. Each paper has a
page with the tables, figures and commands behind its verdicts. [The last page](results/instead.md)
compares rankine with what a user would pick instead.

Verdicts follow from stored results by one rule. A claim is split into checks, which the paper's
page lists with their results.

- **reproduced**: every check holds, at no less than the paper's sizes.
- **partly**: some checks hold, or all hold at a smaller size, which is named.
- **not**: no check holds.
- **cannot be tested here**: data or programs are missing; the table names them.

*On other data* means that the paper's data are not available and a public or generated collection
is used instead. Two values of MAP, NDCG or ROC area are *as good* if the 95 % interval of their
difference is within ±0.01, and one is *better* if the interval is above 0; intervals resample
queries, topics or logs. An exponent of time is *linear* up to 1.1 and *linearithmic* up to 1.2.
Parameters are chosen on training or validation data, never on test data. Times are CPU seconds of
one thread, and one value per claim, the median of the repetitions.

`lam` and `gamma` are the symbols of the respective paper
([conventions](conventions.md#from-a-papers-symbols-to-ours) converts them to `l2`), `C` is SPD's
`aggressiveness`, and `n_iter` in a stored setting is `n_steps`. `make bench` runs every result at a
quick size, `make bench-full` at the sizes shown, and `make results` writes these pages.
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
            "stevens.table13",
            "stevens.sparsity",
            "stevens.epoch_cost",
            "stevens.l1_time",
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
            "instead.everywhere",
            "instead.mslr_like",
            "instead.letor_like",
            "instead.letor_fold",
            "instead.click_log",
        ),
    ),
)
