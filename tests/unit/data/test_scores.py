"""Tables of scores keep the order of rows, and rank within lists."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankine.core.errors import ParameterError
from rankine.data import Dataset
from rankine.data.scores import ScoredRows, write_scores


def test_rows_of_a_list_in_two_places_are_ranked_together(tmp_path):
    qid, docid = np.array([3, 4, 3, 3]), np.array([7, 8, 9, 10])
    data = Dataset.from_arrays(np.zeros((4, 1)), np.zeros(4), qid, docid=docid)
    write_scores([ScoredRows(data, np.array([1.0, 5.0, 2.0, 1.0]))], tmp_path / "s.parquet")
    table = pq.read_table(tmp_path / "s.parquet")
    assert table["rank"].to_pylist() == [2, 1, 1, 3]  # equal scores in row order
    assert table["docid"].to_pylist() == [7, 8, 9, 10]
    assert table["docid"].type == pa.int64()


def test_columns_of_the_result_cannot_be_kept(tmp_path):
    with pytest.raises(ParameterError) as caught:
        write_scores([], tmp_path / "s.parquet", keep=("score",))
    assert caught.value.parameter == "columns"
