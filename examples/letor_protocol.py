"""Document retrieval by the LETOR protocol: five folds, tuned on validation, tested once.

    python examples/letor_protocol.py            # 300 queries
    python examples/letor_protocol.py --small    # seconds

LETOR collections come as five folds of text files. This script writes such folds of a simulated
collection, runs the protocol with three rankers and prints the tables that papers print. Use
``--folder`` to run it on OHSUMED or MQ2008.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import rankine
from rankine.evaluation.letor import run_letor
from rankine.evaluation.letor_tables import letor_tables

FEATURES = ["bm25 title", "bm25 body", "language model", "inlinks", "page rank", "url length"]


def make_folds(folder: Path, queries: int, seed: int = 3) -> None:
    """Write Fold1 ... Fold5 with train.txt, vali.txt and test.txt; parts rotate as in LETOR."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(1, queries + 1), 25)
    # Features are a hidden relevance plus noise; of three grades, most documents are irrelevant.
    relevance = rng.normal(size=len(qid))
    strength = np.array([0.9, 0.7, 0.8, 0.3, 0.4, -0.2])
    X = np.outer(relevance, strength) + rng.normal(size=(len(qid), len(FEATURES)))
    y = np.searchsorted(np.quantile(relevance, [0.8, 0.95]), relevance).astype(float)
    data = rankine.Dataset.from_arrays(np.round(X, 4), y, qid, feature_names=FEATURES)
    parts = np.array_split(np.arange(queries), 5)
    for k in range(5):
        fold = folder / f"Fold{k + 1}"
        fold.mkdir(parents=True, exist_ok=True)
        train = np.concatenate([parts[(k + i) % 5] for i in range(3)])
        data.take_queries(train).save(fold / "train.txt")
        data.take_queries(parts[(k + 3) % 5]).save(fold / "vali.txt")
        data.take_queries(parts[(k + 4) % 5]).save(fold / "test.txt")


def main() -> None:
    """Write folds, run the protocol, print the tables and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="50 queries")
    parser.add_argument("--folder", type=Path, help="a LETOR folder instead of simulated data")
    parser.add_argument("--out", type=Path, default=Path("letor"), help="folder to write to")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    # 1. Folds of whole queries.
    folder = options.folder
    if folder is None:
        folder = options.out / "collection"
        make_folds(folder, 50 if options.small else 300)

    # part protocol
    # 2. Run the protocol: every setting of a small grid is trained on the training part; the best
    #    by validation MAP is evaluated once on the test part.
    rankers = {
        "RankSVM": rankine.RankSVM(loss="squared_hinge"),
        "least squares": rankine.LeastSquaresRanker(),
        "SPD": rankine.SPDRanker(n_steps=20_000),
    }
    result = run_letor([folder], rankers, metric="map", random_state=0)
    # end protocol

    # 3. Print the tables as Markdown.
    text = "\n\n".join(table.markdown() for table in letor_tables(result))
    (options.out / "tables.md").write_text(text + "\n", encoding="utf-8")
    print(text)

    # 4. Write a report with charts.
    page = rankine.report(result, title=f"LETOR protocol: {folder.name}")
    page.save(options.out / "report.html")
    print(f"\nreport: {options.out / 'report.html'}")


if __name__ == "__main__":
    main()
