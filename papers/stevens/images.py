"""Generated queries of the shape of the paper's image search, with noisy click counts.

Of 10,000 features a row has 2 %: visual words of very different frequency, weighted and scaled to
unit length. An image mixes background words with those of two of thirty themes, and its themes make
it attractive or not; clicks follow a Poisson law whose mean grows with attractiveness, and one
image in a hundred is clicked by accident, so that labels are noisy and few images have any click.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

FEATURES, PER_ROW = 10_000, 200
#: Themes of the images of a query, words of a theme, and their share of an image.
THEMES, THEME_WORDS, SHARE = 30, 100, 0.5
#: Log of the mean clicks of an average image, how it grows, and the noise of attractiveness.
BASE, STEEP, NOISE = -4.0, 1.5, 0.5
ACCIDENT = 0.01


class Query(NamedTuple):
    """Rows and click counts of the training, validation and test images of a query."""

    X: list
    counts: list


def words(rng, themes, theme_words, share):
    """Generate rows of visual words: 2 % of the features each, unit length."""
    rows = len(themes)
    popularity = np.cumsum(rng.permutation((np.arange(FEATURES) + 50.0) ** -0.7))
    chance = np.sort(rng.random((rows, 2 * PER_ROW)), axis=1)  # in order they are found faster
    drawn = np.searchsorted(popularity, chance * popularity[-1]).astype(np.int16)
    vocabulary = np.stack([rng.choice(FEATURES, theme_words, replace=False) for _ in range(THEMES)])
    chosen = np.where(rng.random(drawn.shape) < 0.5, themes[:, :1], themes[:, 1:])
    from_theme = vocabulary[chosen, rng.integers(0, theme_words, drawn.shape, dtype=np.int16)]
    drawn = np.where(rng.random(drawn.shape) < share, from_theme.astype(np.int16), drawn)
    drawn.sort(axis=1)
    chance = rng.random(drawn.shape)
    chance[:, 1:][drawn[:, 1:] == drawn[:, :-1]] = 2.0  # a word that is drawn again is no other
    selected = chance <= np.minimum(
        np.partition(chance, PER_ROW - 1, axis=1)[:, [PER_ROW - 1]], 1.0
    )
    indices = drawn[selected].astype(np.int32)
    frequency = np.maximum(np.bincount(indices, minlength=FEATURES), 1)
    values = rng.gamma(2.0, 0.5, len(indices)) * np.log(1 + rows / frequency)[indices]
    starts = np.concatenate([[0], np.cumsum(selected.sum(axis=1))])
    X = sparse.csr_matrix((values, indices, starts), shape=(rows, FEATURES))
    norm = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags(1 / np.maximum(norm, 1e-12)) @ X)


def image_query(seed, number, sizes, theme_words=THEME_WORDS, share=SHARE):
    """Generate one query with training, validation and test images."""
    rng = np.random.default_rng([20260106, seed, number])
    themes = rng.integers(0, THEMES, (sum(sizes), 2))
    X = words(rng, themes, theme_words, share)
    theme_rows = rng.normal(0, 1, THEMES)[themes].sum(axis=1)
    attractive = theme_rows / theme_rows.std() + NOISE * rng.normal(size=len(theme_rows))
    counts = rng.poisson(np.exp(BASE + STEEP * attractive))
    counts = counts + (rng.random(len(counts)) < ACCIDENT) * (1 + rng.poisson(1.0, len(counts)))
    cuts = np.cumsum([0, *sizes])
    parts = list(zip(cuts[:-1], cuts[1:], strict=True))
    return Query([X[a:b] for a, b in parts], [counts[a:b].astype(float) for a, b in parts])
