"""Order and headings of the results page: (heading, introduction, results)."""

from __future__ import annotations

INTRODUCTION = """
# Results

Every figure and table below is made by one command, from one JSON file, on data that anyone can
generate or name in `RANKINE_DATA`. Times are CPU seconds of one thread unless said otherwise;
bands and brackets go from the lowest to the highest of the repetitions, lines are medians.
Parameters are chosen on training or validation data, never on test data. Where a published figure
is not reached, the section says so and why. `lam` and `gamma` are the symbols of the paper at hand
([conventions](conventions.md#from-a-papers-symbols-to-ours) turns them into `l2`), `C` is SPD's
`aggressiveness`, and `n_iter` in a stored setting is `n_steps`.

`make bench` runs everything at quick sizes, `make bench-full` at full ones, and `make results`
writes this page.
"""

SCULLEY = """
D. Sculley, *Large Scale Learning to Rank*, 2009. The paper's claims: stochastic steps on drawn
pairs rank as well as RankSVM, their cost does not grow with the data, and gradient learners reach
the optimum of the objective while passive-aggressive and ROMMA do not.
"""

AIROLA = """
A. Airola, T. Pahikkala, T. Salakoski, *Training linear ranking support vector machines in
linearithmic time using red-black trees*, 2011. The paper's claim: an oracle call costs
O(ms + m log m) for any labels, so that training scales to large sets with real-valued utilities.
"""

TAS = """
E. Tas, *Large scale ranking using stochastic gradient descent*, 2022. The paper's claims: a few
power iterations find good estimates of the extreme eigenvalues, and heavy ball with the step and
momentum made from them (eGDM) is much faster than with fixed ones (GDM), whatever gamma.
"""

STEVENS = """
M. Stevens, S. Bengio, Y. Singer, *Efficient Learning of Sparse Ranking Functions*, 2013. The
paper's claims: coordinate descent on the domination loss costs a time linear in the number of
examples, and an l1 penalty gives models with a few per cent of the features that rank as well as
dense ones.
"""

FRENO = """
A. Freno, M. Saveski, R. Jenatton, C. Archambeau, *One-Pass Ranking Models for Low-Latency Product
Recommendations*, 2015. The paper's claims: one pass of listwise learning is enough, dual averaging
and pruning trade quality for sparsity smoothly, and small models are what low latency needs. Its
section 8 asks three questions; table 1 answers the first, figure 3 the others. Its purchase log is
not public: ours is generated.
"""

INSTEAD = """
rankine's rankers beside what a user would pick instead, on the same rows in one run. Peers are
taken from the Python that `RANKINE_PEERS_PYTHON` names. Where trees win on quality, the section
says so, and by how much.
"""

CONTENTS = (
    (
        "Sculley: stochastic pairwise descent",
        SCULLEY,
        (
            "sculley.figure1",
            "sculley.section34",
            "sculley.table1",
            "sculley.table1_reuters",
            "sculley.table1_imdb",
            "sculley.figure2",
            "sculley.samplers",
            "sculley.data_size",
        ),
    ),
    (
        "Airola et al.: RankSVM in linearithmic time",
        AIROLA,
        (
            "airola.figure1",
            "airola.iterations",
            "airola.memory",
            "airola.peers",
        ),
    ),
    (
        "Tas: eigenvalues and momentum",
        TAS,
        (
            "tas.spectrum",
            "tas.gamma",
            "tas.stability",
        ),
    ),
    (
        "Stevens et al.: sparse ranking functions",
        STEVENS,
        (
            "stevens.table11",
            "stevens.table12",
            "stevens.table13",
            "stevens.sparsity",
            "stevens.epoch_cost",
            "stevens.l1_time",
        ),
    ),
    (
        "Freno et al.: one pass over lists",
        FRENO,
        (
            "freno.figure2",
            "freno.table1",
            "freno.figure3",
            "freno.deltas",
            "freno.after_training",
            "freno.table2",
        ),
    ),
    (
        "Against what a user would pick instead",
        INSTEAD,
        (
            "instead.mslr_like",
            "instead.letor_like",
            "instead.letor_fold",
            "instead.click_log",
        ),
    ),
)
