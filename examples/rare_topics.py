"""Rare-topic text ranking: one tiny model for each of many topics, over one collection.

    python examples/rare_topics.py            # 8,000 documents
    python examples/rare_topics.py --small    # seconds

A news desk wants alerts for topics of one document in a hundred. For each topic, relevant documents
should rank above all others, and the model should be a short, readable list of words. This script
makes such a collection, learns all topics at once, and prints the words of each model.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy import sparse

import rankine
from rankine.metrics import evaluate, random_expectation

TOPICS = {
    "grain": ["wheat", "maize", "harvest", "tonnes", "export"],
    "oil": ["barrel", "crude", "opec", "refinery", "tanker"],
    "rates": ["interest", "bank", "bond", "yield", "inflation"],
    "tea": ["leaf", "auction", "estate", "harvest", "export"],
}
LENGTH = 60  # words of a document


def make_collection(n: int, seed: int = 5) -> tuple[sparse.csc_matrix, np.ndarray, list[str]]:
    """Make documents x words (log counts), documents x topics (0 or 1), and the words.

    Background words follow a Zipf law. A document of a topic mixes in the topic's words; "harvest"
    and "export" belong to two topics, and any document may hold any word by chance.
    """
    rng = np.random.default_rng(seed)
    special = sorted({word for words in TOPICS.values() for word in words})
    words = [*special, *(f"word{i}" for i in range(2000))]
    column = {word: j for j, word in enumerate(words)}
    tokens = len(special) + np.minimum(rng.zipf(1.25, size=(n, LENGTH)), 2000) - 1
    Y = np.zeros((n, len(TOPICS)))
    for t, topic_words in enumerate(TOPICS.values()):
        members = np.flatnonzero(rng.random(n) < 0.012)
        Y[members, t] = 1
        for document in members:
            count = rng.integers(2, 7)
            tokens[document, :count] = [column[word] for word in rng.choice(topic_words, count)]
    stray = rng.random((n, LENGTH)) < 0.002
    tokens[stray] = rng.integers(0, len(special), stray.sum())
    rows = np.repeat(np.arange(n), LENGTH)
    counts = sparse.csr_matrix((np.ones(n * LENGTH), (rows, tokens.ravel())), (n, len(words)))
    counts.data = np.log1p(counts.data)
    return counts.tocsc(), Y, words


def main() -> None:
    """Make the collection, learn the topics, evaluate and show them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="2,000 documents")
    parser.add_argument("--out", type=Path, default=Path("rare-topics"), help="folder to write to")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    # 1. Train on the first 60 %, choose the penalty on the next 20 %, evaluate on the last 20 %.
    n = 2000 if options.small else 8000
    X, Y, words = make_collection(n)
    train, valid, test = np.split(np.arange(n), [int(0.6 * n), int(0.8 * n)])

    # 2. Train all topics at once on one shared matrix. The l1 penalty keeps only the words that a
    #    topic needs; its strength is chosen for each topic on the validation documents.
    bundle = rankine.fit_topics(
        X[train],
        Y[train],
        topics=list(TOPICS),
        feature_names=words,
        eval_set=(X[valid], Y[valid]),
        metric="map",
        n_steps=10,
    )
    bundle.save(options.out / "topics.rankine")

    # 3. Evaluate each topic and print its words.
    for t, topic in enumerate(TOPICS):
        model = bundle[topic]
        scores = X[test] @ model.to_dense()
        precision = evaluate("map", Y[test, t], scores)
        chance = random_expectation("map", Y[test, t])
        top_words = [weight["name"] for weight in model.summary(6)["top_weights"]]
        print(
            f"{topic:6} average precision {precision:.2f} (random order {chance:.2f}), "
            f"{model.nnz} of {len(words):,} words: {', '.join(top_words)}"
        )

    # 4. Draw quality against size for one topic.
    one_list = np.zeros(len(train))  # all documents are ranked together
    path = rankine.domination_path(
        X[train], Y[train, 0], one_list, eval_set=(X[valid], Y[valid, 0]), metric="map", n_steps=15
    )
    axes = rankine.plot.path(path)
    axes.set_title("grain: average precision against number of words")
    axes.figure.savefig(options.out / "sizes.png", dpi=120)
    print(f"bundle: {options.out / 'topics.rankine'}\npicture: {options.out / 'sizes.png'}")


if __name__ == "__main__":
    main()
