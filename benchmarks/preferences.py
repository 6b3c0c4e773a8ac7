"""Bradley-Terry model with features: bootstrap, compared with scikit-learn.

One million comparisons of 200 items with 10 style features, and 100 rounds that each draw the
comparisons anew. Both minimise the same objective, l2/2 |w|^2 + mean logistic loss; scikit-learn
takes the differences of the two sides, half of them turned round, since it wants two classes. It
starts from the last round's weights, and its tolerance is 1e-5: with the default of 1e-4 it stops
before the likelihood is ours. The losses that both reach are measured on every round's draw.

    python -m benchmarks preferences --full
"""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from benchmarks.common.machine import save
from rankine import Dataset
from rankine.evaluation.preferences import item_strengths
from rankine.kernels.random import BOOTSTRAP, resolve_seed, stream_seed

L2 = 1e-6


def votes(n, n_items=200, n_style=10, seed=0):
    """Generate winners, losers and the style features of both sides."""
    rng = np.random.default_rng(seed)
    strength, taste = rng.normal(size=n_items), 0.3 * rng.normal(size=n_style)
    a = rng.integers(0, n_items, n)
    b = (a + rng.integers(1, n_items, n)) % n_items
    style = rng.normal(size=(2, n, n_style))
    won = rng.random(n) < 1 / (
        1 + np.exp(strength[b] - strength[a] - (style[0] - style[1]) @ taste)
    )
    winner, loser = np.where(won, a, b), np.where(won, b, a)
    first = np.where(won[:, None], style[0], style[1])
    return winner, loser, first, np.where(won[:, None], style[1], style[0])


def objective(w, differences, counts):
    """Return l2/2 |w|^2 + mean loss."""
    return L2 / 2 * w @ w + counts @ np.logaddexp(0, -(differences @ w)) / counts.sum()


def clocks(function):
    """Measure elapsed and CPU seconds of a call; return them with its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}, result


def by_logistic_regression(differences, draws):
    """Weights of every round by scikit-learn."""
    turned = np.where(np.arange(differences.shape[0]) % 2, -1.0, 1.0)
    X = sparse.csr_matrix(sparse.diags(turned) @ differences)
    model = LogisticRegression(
        C=1 / (L2 * X.shape[0]), fit_intercept=False, warm_start=True, tol=1e-5, max_iter=1000
    )
    return [model.fit(X, turned, sample_weight=counts).coef_[0].copy() for counts in draws]


def run(n, rounds):
    winner, loser, first, second = votes(n)
    data = Dataset.from_pairs(winner, loser, features=(first, second))
    item_strengths(
        Dataset.from_pairs(winner[:5000], loser[:5000], features=(first[:5000], second[:5000])),
        n_resamples=2,
    )
    ours_time, results = clocks(lambda: item_strengths(data, l2=L2, n_resamples=rounds))
    differences = sparse.csr_matrix(data.X[::2] - data.X[1::2])
    drawn = np.random.default_rng(stream_seed(resolve_seed(0), BOOTSTRAP))
    draws = [np.bincount(drawn.integers(0, n, n), minlength=n).astype(float) for _ in range(rounds)]
    theirs_time, theirs = clocks(lambda: by_logistic_regression(differences, [np.ones(n), *draws]))
    ours = [results.ranker.coef_, *results.rounds]
    gaps = [
        objective(b, differences, c) - objective(a, differences, c)
        for a, b, c in zip(ours, theirs, [np.ones(n), *draws], strict=True)
    ]
    save("preferences", {
        "comparisons": n, "items": 200, "style": 10, "rounds": rounds, "l2": L2,
        "seconds": ours_time, "sklearn_seconds": theirs_time,
        "times_faster": theirs_time["wall"] / ours_time["wall"],
        "times_less_cpu": theirs_time["cpu"] / ours_time["cpu"],
        "loss": objective(ours[0], differences, np.ones(n)),
        "sklearn_loss_above": {"lowest": min(gaps), "highest": max(gaps)},
    })  # fmt: skip


def smoke():
    """Run the smallest size, as the tests do."""
    run(2_000, 2)


def quick():
    """Measure a twentieth of the comparisons and 10 rounds."""
    run(50_000, 10)


def full():
    """Measure one million comparisons and 100 rounds."""
    run(1_000_000, 100)
