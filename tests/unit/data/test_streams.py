"""What every stream of labelled lists does, whatever it reads."""

from __future__ import annotations

import numpy as np

from rankine.data import Dataset
from rankine.data.fingerprint import fingerprint
from rankine.data.streams import LabelledStream


class TwoBlocks(LabelledStream):
    """Four lists in two blocks."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.data = Dataset.from_arrays(
            rng.normal(size=(8, 3)), np.arange(8) % 2, np.arange(8) // 2
        )

    @property
    def n_features(self):
        return 3

    def __iter__(self):
        yield self.data.take_queries([0, 1])
        yield self.data.take_queries([2, 3])


def test_a_stream_is_loaded_block_by_block():
    stream = TwoBlocks()
    loaded = stream.load()
    np.testing.assert_array_equal(loaded.X, stream.data.X)
    assert loaded.n_queries == 4
    assert stream.feature_names is None
    assert len(list(stream.raw_blocks())) == 2


def test_the_fingerprint_is_that_of_the_rows_in_memory():
    stream = TwoBlocks()
    assert stream.compute_fingerprint() == fingerprint([stream.data])


def test_only_raw_logs_have_an_encoding():
    stream = TwoBlocks()
    assert stream.log_encoding() is None
    assert stream.for_tables() is stream
