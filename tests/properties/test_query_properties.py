"""What holds of every grouping of rows into queries."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from properties.strategies import datasets, query_ids
from rankine.data.query_index import QueryIndex


@settings(max_examples=80, deadline=None)
@given(query_ids)
def test_every_row_is_in_the_query_of_its_id_once(ids):
    index = QueryIndex.from_qid(np.array(ids), len(ids))
    rows = [index.rows_of(k) for k in range(index.n_queries)]
    assert sorted(np.concatenate(rows).tolist()) == list(range(len(ids)))
    for k, mine in enumerate(rows):
        assert {ids[row] for row in mine.tolist()} == {int(index.ids[k])}
        assert (np.diff(mine) > 0).all(), "rows keep their order"
    assert index.ids.tolist() == list(dict.fromkeys(ids)), "queries in order of appearance"
    assert [int(index.ids[code]) for code in index.codes] == ids


@settings(max_examples=60, deadline=None)
@given(query_ids, st.randoms(use_true_random=False))
def test_gather_and_scatter_are_inverse(ids, random):
    index = QueryIndex.from_qid(np.array(ids), len(ids))
    values = np.array([random.random() for _ in ids])
    np.testing.assert_array_equal(index.scatter(index.gather(values)), values)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_group_sizes_and_ids_describe_the_same_queries(sizes):
    total = sum(sizes)
    by_group = QueryIndex.from_group(sizes, total)
    by_qid = QueryIndex.from_qid(np.repeat(np.arange(len(sizes)), sizes), total)
    assert by_group.sizes.tolist() == by_qid.sizes.tolist() == [n for n in sizes if n]


@settings(max_examples=40, deadline=None)
@given(datasets(), st.integers(1, 6))
def test_blocks_hold_whole_queries_in_order(data, rows):
    blocks = list(data.blocks(rows))
    assert np.concatenate([block.qid for block in blocks]).tolist() == data.qid.tolist()
    assert np.concatenate([block.y for block in blocks]).tobytes() == data.y.tobytes()
    seen: set[int] = set()
    for block in blocks:
        here = set(block.qid.tolist())
        assert not here & seen, "a query was cut"
        seen |= here
