"""Read models of other programs: sofia-ml, and SVMrank (also SVMlight with a linear kernel).

sofia-ml writes all weights on one line. The first belongs to a bias feature x_0 = 1, which adds the
same number to every row of a list and is dropped. SVMrank writes a header and one support vector
per line: w = sum_i (alpha_i y_i) x_i. Its threshold b is a constant too and is dropped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rankine.core.errors import ModelFormatError
from rankine.core.safe_text import printable
from rankine.core.stores import open_binary
from rankine.model.linear import LinearModel
from rankine.model.weights import MAX_FEATURES

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\Z")
_SVM_FIRST = re.compile(r"SVM-(?:light|rank|struct)\S* Version V?\S+\s*\Z")
_START_BYTES = 256
#: Comments after the values of an SVMlight header, in the order of its lines.
_SVM_HEADER = (
    "kernel type",
    "kernel parameter -d",
    "kernel parameter -g",
    "kernel parameter -s",
    "kernel parameter -r",
    "kernel parameter -u",
    "highest feature index",
    "number of training documents",
    "number of support vectors plus 1",
    "threshold b",
)


def is_foreign(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like a text model of sofia-ml or SVMrank."""
    with open_binary(path) as file:
        start = file.read(_START_BYTES)
    if start.startswith(b"SVM-"):
        return True
    first = start.partition(b" ")[0].strip()
    return bool(_NUMBER.match(first.decode("latin-1"))) and b":" not in start


def read_foreign(path: str | os.PathLike[str]) -> LinearModel:
    """Read a model of sofia-ml or SVMrank; depending on its first bytes."""
    with open_binary(path) as file:
        svm = file.read(4) == b"SVM-"
    return read_svmrank(path) if svm else read_sofia(path)


def read_sofia(path: str | os.PathLike[str]) -> LinearModel:
    """Read a sofia-ml model: weights on one line, the bias first.

    Models trained with ``--hash_mask_bits`` have the same format but hashed features. They cannot
    be distinguished and must not be read.
    """
    name = os.fspath(path)
    lines = [line for line in _lines(name) if line[1].strip()]
    if len(lines) != 1:
        raise _format_error(name, f"{len(lines)} lines of weights instead of one", 1)
    number, text = lines[0]
    weights = [_number(name, number, token) for token in text.split()]
    return LinearModel.from_weights(
        weights[1:],
        parameters={"ranker": "sofia-ml"},
        provenance={"source": Path(name).name, "bias_dropped": weights[0]},
    )


def read_svmrank(path: str | os.PathLike[str]) -> LinearModel:
    """Read a model of SVMrank, or of SVMlight with a linear kernel."""
    name = os.fspath(path)
    lines = _lines(name)
    header = _svm_header(name, lines)
    n_features = int(header["highest feature index"])
    if not 0 <= n_features <= MAX_FEATURES:
        raise _format_error(name, f"{n_features} features", 8)
    weights: dict[int, float] = {}
    n_vectors = 0
    for number, line in lines:
        text = line.partition("#")[0].split()
        if not text:
            continue
        n_vectors += 1
        factor = _number(name, number, text[0])
        for token in text[1:]:
            index, _, value = token.partition(":")
            # Ids of training rows, not features.
            if index in {"qid", "cid", "sid"}:
                continue
            if not index.isdigit() or not 1 <= int(index) <= n_features:
                raise _format_error(name, f"bad feature {printable(token, 40)!r}", number)
            j = int(index) - 1
            weights[j] = weights.get(j, 0.0) + factor * _number(name, number, value)
    expected = int(header["number of support vectors plus 1"]) - 1
    if n_vectors != expected:
        raise _format_error(
            name, f"{n_vectors} support vectors, the header declares {expected}", None
        )
    indices = np.array(sorted(j for j, w in weights.items() if w != 0), dtype=np.int64)
    return LinearModel(
        n_features,
        indices,
        np.array([weights[j] for j in indices.tolist()], dtype=np.float64),
        parameters={"ranker": "svmrank"},
        provenance={
            "source": Path(name).name,
            "documents": int(header["number of training documents"]),
            "threshold_dropped": header["threshold b"],
        },
    )


def _svm_header(name: str, lines: Iterator[tuple[int, str]]) -> dict[str, Any]:
    number, first = next(lines, (1, ""))
    if not _SVM_FIRST.match(first):
        raise _format_error(name, "not an SVMlight or SVMrank model", number)
    header: dict[str, Any] = {}
    for key in _SVM_HEADER:
        number, line = next(lines, (number + 1, ""))
        value, _, comment = line.partition("#")
        if not comment.strip().startswith(key):
            raise _format_error(name, f"line with {key!r} is missing", number)
        header[key] = value.strip() if key.endswith("-u") else _number(name, number, value.strip())
    if header["kernel type"] != 0:
        raise _format_error(name, f"kernel type {header['kernel type']:g} is not linear", 2)
    return header


def _lines(name: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a text file. Only comments may be other than ASCII."""
    with open_binary(name) as file:
        for number, line in enumerate(file, 1):
            try:
                text, sign, comment = line.partition(b"#")
                yield number, text.decode("ascii") + (sign + comment).decode("latin-1")
            except UnicodeDecodeError as error:
                raise _format_error(name, "not a text model", number) from error


def _number(name: str, line: int, token: str) -> float:
    if not _NUMBER.match(token):
        raise _format_error(name, f"{printable(token, 40)!r} is not a number", line)
    value = float(token)
    if not np.isfinite(value):
        raise _format_error(name, f"{printable(token, 40)!r} is not finite", line)
    return value


def _format_error(name: str, reason: str, line: int | None) -> ModelFormatError:
    return ModelFormatError(
        reason, fix="Pass a model written by sofia-ml or SVMrank", file=name, line=line
    )
