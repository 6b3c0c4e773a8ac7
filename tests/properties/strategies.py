"""Strategies that the property tests share: lists, data sets, models, names."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from rankine.data import Dataset
from rankine.model import LinearModel

#: Text without control characters, blanks or lone surrogates.
names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1
)
finite = st.floats(allow_nan=False, allow_infinity=False)
#: Labels with something relevant and something not, and scores without ties.
lists = st.integers(2, 8).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(
            lambda labels: 0 in labels and max(labels) > 0
        ),
        st.permutations(range(n)),
    )
)
#: The same with few different scores.
tied_lists = lists.flatmap(
    lambda query: st.tuples(
        st.just(query[0]),
        st.lists(st.sampled_from([-1.5, 0.0, 2.0]), min_size=len(query[0]), max_size=len(query[0])),
    )
)
#: Query ids in any order, with repeats.
query_ids = st.lists(st.integers(-3, 3), min_size=1, max_size=30)


@st.composite
def datasets(draw):
    """Dense or sparse data of float32 or float64, with any labels and contiguous queries."""
    n_rows = draw(st.integers(1, 12))
    n_features = draw(st.integers(1, 5))
    width = draw(st.sampled_from((32, 64)))
    values = st.floats(allow_nan=False, allow_infinity=False, width=width)
    cells = draw(st.lists(st.one_of(st.just(0.0), values), min_size=n_rows * n_features,
                          max_size=n_rows * n_features))  # fmt: skip
    X = np.array(cells, dtype=f"f{width // 8}").reshape(n_rows, n_features)
    X[X == 0] = 0  # text has no negative zero to speak of in absent features
    matrix = sparse.csr_matrix(X) if draw(st.booleans()) else X
    sizes = draw(st.lists(st.integers(1, 4), min_size=n_rows, max_size=n_rows))
    ids = draw(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n_rows, max_size=n_rows, unique=True)
    )
    qid = np.repeat(np.array(ids), sizes)[:n_rows]
    y = draw(st.lists(st.floats(-1e300, 1e300), min_size=n_rows, max_size=n_rows))
    return Dataset.from_arrays(matrix, np.array(y) + 0.0, qid)


@st.composite
def models(draw):
    """Models with or without names, of any finite weights."""
    weights = draw(st.lists(st.one_of(st.just(0.0), finite), min_size=1, max_size=8))
    named = draw(st.booleans())
    chosen = draw(st.lists(names, min_size=len(weights), max_size=len(weights), unique=True))
    return LinearModel.from_weights(
        weights,
        chosen if named else None,
        base=draw(st.sampled_from((0, 1))),
        metric=draw(st.sampled_from((None, "ndcg@10"))),
        parameters={"note": draw(st.text(max_size=5)), "value": draw(finite)},
    )
