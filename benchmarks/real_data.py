"""The real data sets, from the folder that RANKINE_DATA names; absent ones are named."""

from __future__ import annotations

import lzma
import os
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
from scipy import sparse

from rankine.core.errors import EmptyDataError
from rankine.core.specs import MissingValues
from rankine.evaluation.letor import LetorFolder
from rankine.evaluation.letor_tables import letor_tasks
from rankine.transforms.missing import filled


def data_folder():
    """The folder of real data sets."""
    named = os.environ.get("RANKINE_DATA")
    if not named or not Path(named).is_dir():
        raise FileNotFoundError(
            "RANKINE_DATA does not name a folder: set it to where the real data sets are"
        )
    return Path(named)


class NullsAreZero(LetorFolder):
    """A LETOR folder whose missing values are 0."""

    def fold(self, k):
        """Fold number k, filled."""
        found = super().fold(k)
        parts = [filled(MissingValues("zero"), part) for part in found[1:]]
        return type(found)(found[0], *parts)


def letor_folders(**options):
    """Every LETOR folder under RANKINE_DATA, and the names of the LETOR tasks that are absent.

    ``options`` are those of ``rankine.load``; NULL is read as 0.
    """
    found = []
    for path in sorted(data_folder().iterdir()):
        if path.is_dir():
            with suppress(EmptyDataError):  # not a LETOR folder
                found.append(NullsAreZero(path, **options))
    if not found:
        raise FileNotFoundError(f"no LETOR folder is in {data_folder()}")
    names = [folder.name.lower() for folder in found]
    absent = [task for task in letor_tasks() if not any(n.startswith(task) for n in names)]
    return found, absent


def read_reuters():
    """Reuters-21578: matrix of documents, 0/1 matrix of topics, topic names, training documents."""
    folder = data_folder() / "reuters21578_lyrl"
    rows, ids, sizes = [], [], []
    for part in ("vectors_train.dat.xz", "vectors_test.dat.xz"):
        with lzma.open(folder / part, "rt", encoding="ascii") as file:
            for line in file:
                did, *terms = line.split()
                ids.append(int(did))
                rows.append([term.split(":") for term in terms])
        sizes.append(len(ids))
    place = {did: i for i, did in enumerate(ids)}
    lengths = [len(row) for row in rows]
    indices = np.array([int(j) for row in rows for j, _ in row])
    values = np.array([float(v) for row in rows for _, v in row])
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    X = sparse.csr_matrix((values, indices, pointers))
    X.sort_indices()
    topics: dict[str, list[int]] = {}
    with lzma.open(folder / "topics.qrels.xz", "rt", encoding="ascii") as file:
        for line in file:
            topic, did, relevant = line.split()
            if relevant == "1" and int(did) in place:
                topics.setdefault(topic, []).append(place[int(did)])
    names = sorted(topics)
    Y = np.zeros((len(ids), len(names)))
    for t, name in enumerate(names):
        Y[topics[name], t] = 1.0
    return X, Y, names, sizes[0]


def read_imdb():
    """IMDB plots: 0/1 words (unit length a row), 0/1 matrix of genres, genre names."""
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
