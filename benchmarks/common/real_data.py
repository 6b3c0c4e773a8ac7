"""The real data sets, from the folder that RANKINE_DATA names; absent ones are named."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_files

from rankine.core.errors import EmptyDataError
from rankine.core.specs import MissingValues
from rankine.evaluation.letor import LetorFolder
from rankine.evaluation.letor_tables import letor_tasks
from rankine.transforms.missing import fill_dataset


def data_folder():
    """Return the folder of real data sets."""
    named = os.environ.get("RANKINE_DATA")
    if not named or not Path(named).is_dir():
        raise FileNotFoundError(
            "RANKINE_DATA does not name a folder: set it to where the real data sets are"
        )
    return Path(named)


class NullsAreZero(LetorFolder):
    """A LETOR folder whose missing values are 0."""

    def fold(self, k):
        """Return fold number k with missing values replaced by 0."""
        fold = super().fold(k)
        parts = [fill_dataset(MissingValues("zero"), part) for part in fold[1:]]
        return type(fold)(fold[0], *parts)


def letor_folders(**options):
    """Return every LETOR folder under RANKINE_DATA, and the names of the absent LETOR tasks.

    ``options`` are those of ``rankine.load``; NULL is read as 0.
    """
    folders = []
    for path in sorted(data_folder().iterdir()):
        if path.is_dir():
            with suppress(EmptyDataError):  # not a LETOR folder
                folders.append(NullsAreZero(path, **options))
    if not folders:
        raise FileNotFoundError(f"no LETOR folder is in {data_folder()}")
    names = [folder.name.lower() for folder in folders]
    absent = [task for task in letor_tasks() if not any(n.startswith(task) for n in names)]
    return folders, absent


def letor_collections(**options):
    """Return one folder per collection, and the absent tasks.

    Forms of a collection (scaled or not) hold the same documents and are no collections of their
    own: the one that is scaled by query is taken, else the first.
    """
    folders, absent = letor_folders(**options)
    forms = {}
    for folder in folders:
        name = folder.name.lower()
        task = next((task for task in letor_tasks() if name.startswith(task)), name)
        forms.setdefault(task, []).append(folder)
    collections = [
        max(group, key=lambda folder: "norm" in folder.name.lower()) for group in forms.values()
    ]
    return collections, absent


class Topics(NamedTuple):
    """Documents of a collection and the topics they belong to."""

    X: Any  # documents x terms
    Y: Any  # documents x topics, 0 or 1
    names: list
    train: int  # the first so many documents are the training part of the collection


def read_reuters():
    """Read Reuters-21578 in the format of LYRL2004."""
    folder = data_folder() / "reuters21578_lyrl"
    parts = [folder / "vectors_train.dat.xz", folder / "vectors_test.dat.xz"]
    topics = read_lyrl(parts, [folder / "topics.qrels.xz"], zero_based=True)
    return topics._replace(Y=topics.Y.astype(float))


def read_rcv1():
    """Read RCV1-v2 from ``RANKINE_DATA/rcv1``; its 23,149 training documents come first.

    Either the files of LYRL2004 (``lyrl2004_vectors_train.dat``, ``lyrl2004_vectors_test_pt0.dat``
    to ``_pt3``, ``rcv1-v2.topics.qrels``, each also compressed), or what scikit-learn's
    ``fetch_rcv1(data_home=...)`` left there.
    """
    folder = data_folder() / "rcv1"
    if (folder / "RCV1").is_dir():
        from sklearn.datasets import fetch_rcv1

        topics = fetch_rcv1(data_home=folder, download_if_missing=False)
        names = [str(name) for name in topics.target_names]
        return Topics(topics.data.astype(np.float32), topics.target.toarray(), names, 23_149)
    names = ["train", "test_pt0", "test_pt1", "test_pt2", "test_pt3"]
    parts = [one_file(folder, f"lyrl2004_vectors_{name}.dat") for name in names]
    topics = read_lyrl(parts, [one_file(folder, "rcv1-v2.topics.qrels")], zero_based=False)
    return topics._replace(X=topics.X.astype(np.float32))


def rcv1_is_there():
    """Whether ``read_rcv1`` would find something."""
    named = os.environ.get("RANKINE_DATA")
    return bool(named) and (Path(named) / "rcv1").is_dir()


def one_file(folder, name):
    """Find a file by its name, with any compression suffix."""
    matches = [path for suffix in ("", *OPENERS) if (path := folder / (name + suffix)).is_file()]
    if not matches:
        raise FileNotFoundError(f"there is no {name} (.gz, .bz2, .xz) in {folder.name}")
    return matches[0]


OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def opened(path, mode="rb"):
    """Open a file, decompressed according to its suffix."""
    return OPENERS.get(path.suffix, open)(path, mode)


def read_lyrl(vectors, qrels, *, zero_based):
    """Read vectors ``did tid:weight ...`` and judgments ``topic did 1`` (LYRL2004)."""
    files = [opened(path) for path in vectors]
    try:
        loaded = load_svmlight_files(files, zero_based=zero_based)
    finally:
        for file in files:
            file.close()
    matrices, ids = loaded[::2], np.concatenate(loaded[1::2]).astype(np.int64)
    row_of_document = {did: i for i, did in enumerate(ids.tolist())}
    topics: dict[str, list[int]] = {}
    for path in qrels:
        with opened(path, "rt") as file:
            for line in file:
                topic, did, relevant = line.split()
                if relevant == "1" and int(did) in row_of_document:
                    topics.setdefault(topic, []).append(row_of_document[int(did)])
    names = sorted(topics)
    Y = np.zeros((len(ids), len(names)), dtype=np.uint8)
    for t, name in enumerate(names):
        Y[topics[name], t] = 1
    X = sparse.vstack(matrices, format="csr")
    X.sort_indices()
    return Topics(X, Y, names, matrices[0].shape[0])


def read_imdb():
    """Read IMDB plots: 0/1 words scaled to unit length, a 0/1 matrix of genres, and genre names."""
    names, columns, indices, pointers = [], 0, [], [0]
    with lzma.open(data_folder() / "imdb_meka" / "Imdb.arff.xz", "rt", encoding="utf-8") as file:
        for line in file:
            if line.startswith("@relation"):
                labels = abs(int(re.search(r"-C (-?\d+)", line).group(1)))
            elif line.startswith("@attribute"):
                names.append(line.split()[1])
                columns += 1
            elif line.startswith("{"):
                entries = line.strip().strip("{}").split(",")
                indices += [int(entry.split()[0]) for entry in entries if entry]
                pointers.append(len(indices))
    ones = np.ones(len(indices), dtype=np.float32)
    table = sparse.csr_matrix((ones, indices, pointers), shape=(len(pointers) - 1, columns))
    X, Y = table[:, labels:].tocsr(), table[:, :labels].toarray().astype(float)
    lengths = np.sqrt(np.maximum(np.diff(X.indptr), 1)).astype(np.float32)
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return X, Y, names[:labels]


def read_expedia(most=200_000):
    """Read Expedia's hotel searches (``expedia/train.csv`` of Kaggle's 2013 competition).

    A list is a search; the label is 5 for a booking, 1 for a click, 0 otherwise. Positions and what
    is known only after the click are no features. Reads the first ``most`` rows.
    """
    import pandas as pd

    frame = pd.read_csv(opened(one_file(data_folder() / "expedia", "train.csv"), "rt"), nrows=most)
    frame = frame[frame.srch_id != frame.srch_id.iloc[-1]]  # the last search may be cut
    y = np.where(frame.booking_bool > 0, 5.0, frame.click_bool.astype(float))
    hidden = [
        "srch_id",
        "date_time",
        "position",
        "click_bool",
        "booking_bool",
        "gross_bookings_usd",
    ]
    X = frame.drop(columns=hidden).apply(pd.to_numeric).fillna(0.0)
    return X.to_numpy(dtype=np.float64), y, frame.srch_id.to_numpy()


#: Grades of WANDS.
WANDS_GRADES = {"Exact": 2.0, "Partial": 1.0, "Irrelevant": 0.0}


def read_wands():
    """Read Wayfair's WANDS (``wands/query.csv``, ``product.csv`` and ``label.csv``).

    Features are shares of the query's words in the name, the class, the categories and the
    description of a product, the words of its name, its rating and its number of reviews.
    """
    import pandas as pd

    folder = data_folder() / "wands"
    query, product, label = (
        pd.read_csv(opened(one_file(folder, f"{name}.csv"), "rt"), sep="\t")
        for name in ("query", "product", "label")
    )
    frame = label.merge(query, on="query_id").merge(product, on="product_id")
    frame = frame.sort_values(["query_id", "product_id"], ignore_index=True)
    frame.columns = [name.strip().replace(" ", "_") for name in frame.columns]
    asked = [_words(text) for text in frame["query"]]
    texts = ("product_name", "product_class", "category_hierarchy", "product_description")
    columns = [
        [len(words & _words(text)) / max(len(words), 1) for words, text in
         zip(asked, frame[name], strict=True)]
        for name in texts
    ]  # fmt: skip
    columns.append([len(_words(text)) for text in frame.product_name])
    columns += [frame[name].fillna(0.0) for name in ("average_rating", "review_count")]
    y = frame.label.map(WANDS_GRADES).to_numpy(dtype=float)
    return np.column_stack(columns).astype(float), y, frame.query_id.to_numpy()


def _words(text):
    """Return the set of words of a text; an empty set where there is none."""
    return set(re.findall(r"[a-z0-9]+", text.lower())) if isinstance(text, str) else set()
