"""Small Parquet sets, and one cluster of processes for all tests of this folder."""

from __future__ import annotations

import numpy as np
import pytest
from distributed_data import write_files


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A pattern of three Parquet files of many row groups."""
    folder = tmp_path_factory.mktemp("parts")
    write_files(folder, n_files=3)
    return f"{folder}/*.parquet"


@pytest.fixture(scope="session")
def client():
    """A client of two worker processes."""
    from rankine.distributed.runners import connect

    np.seterr(all="warn")
    with connect("local:2", memory_limit="1GB") as client:
        yield client
