"""Writing data: one door for every format."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

from rankine.core.errors import ParameterError
from rankine.data.compression import strip_compression
from rankine.data.dataset import Dataset
from rankine.data.formats import writer_for

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["save"]


def save(
    data: Dataset | Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the name that load and scan use
    **options: Any,
) -> int:
    """Write a data set, a stream or blocks to a file that appears only when it is complete.

    Parameters
    ----------
    data
        A ``Dataset``, a ``Scan``, or datasets one after the other (then never all in memory).
    path
        The suffix decides the format: ``.txt``, ``.svm`` and others for LETOR text (also with
        ``.gz``, ``.bz2``, ``.xz``, ``.zst``), ``.parquet``, ``.arrow`` / ``.feather``, ``.npz``;
        ``-`` writes text to standard output.
    format
        Name of the format, whatever the suffix.
    **options
        Options of the format's ``write_blocks``: ``layout``, ``compression``, ``base`` ...

    Returns
    -------
    int
        Rows written.

    Examples
    --------
    >>> import numpy as np, rankine, tempfile
    >>> data = Dataset.from_arrays(np.eye(2, dtype=np.float32), [1, 0], ["a", "a"])
    >>> path = tempfile.mkdtemp() + "/data.parquet"
    >>> save(data, path, layout="columns")
    2
    >>> rankine.load(path).fingerprint == data.fingerprint
    True
    """
    name = os.fspath(path)
    if name == "-" and format is None:
        format = "letor"  # noqa: A001 - as above
    writer = writer_for(name, format)
    is_text = writer.__name__.endswith(".letor")
    if not is_text and name == "-":
        raise ParameterError("only text can be written to standard output", fix="Name a file")
    if not is_text and strip_compression(name) != name:
        raise ParameterError(
            f"{name} is compressed inside, not by its suffix", fix="Use compression= instead"
        )
    known = set(inspect.signature(writer.write_blocks).parameters) - {"blocks", "path"}
    for option in options:
        if option not in known:
            raise ParameterError(
                f"{option}= means nothing for {name}",
                fix="Choose among " + (", ".join(sorted(known)) or "no options"),
            )
    blocks = [data] if isinstance(data, Dataset) else data
    return int(writer.write_blocks(blocks, path, **options))
