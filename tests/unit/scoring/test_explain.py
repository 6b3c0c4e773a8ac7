"""Explanations of rows within their list."""

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import (
    ParameterError,
)
from rankine.core.specs import (
    ListRange,
    MissingValues,
    RunScores,
)
from rankine.model import LinearModel
from rankine.scoring import Scorer

pytestmark = pytest.mark.kernels


def random_case(seed, n=30, d=50, density=0.2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    w = rng.normal(size=d) * (rng.random(d) < 0.3)
    w[0] = 1.0
    return X, w


def test_explanations_inside_a_list_add_up_to_the_score():
    X, w = random_case(9)
    for transforms in ((), (ListRange(),)):
        scorer = Scorer(LinearModel.from_weights(w, transforms=transforms))
        for rows in (X, sparse.csr_array(X)):
            scores = scorer.score(rows)
            assert scorer.explain(rows, 4).total == pytest.approx(scores[4], abs=1e-12)
            pair = scorer.explain_pair(rows, 2, 8)
            assert pair.total == pytest.approx(scores[2] - scores[8], abs=1e-12)
    with pytest.raises(ParameterError, match="row 30"):
        scorer.explain(X, 30)


def test_missing_values_explain_their_part_of_a_pair():
    missing = MissingValues("indicator", (0, 2), (10.0, 3.0))
    scorer = Scorer(
        LinearModel.from_weights([1.0, 2.0, 0.0], ["a", "b", "c"], transforms=(missing,))
    )
    X = np.array([[np.nan, 1.0, np.nan], [np.nan, 2.0, 0.0], [1.0, 3.0, np.nan]])
    names = [{"a": row[0], "b": row[1], "c": row[2]} for row in X.tolist()]
    scores = scorer.score(X)
    for rows in (X, sparse.csr_array(X), names):
        np.testing.assert_allclose(scorer.score(rows), scores)
        for i in range(3):
            assert scorer.explain(rows, i).total == pytest.approx(scores[i])
            for k in range(3):
                told = scorer.explain_pair(rows, i, k)
                assert told.total == pytest.approx(scores[i] - scores[k])
    terms = {t.name: t.contribution for t in scorer.explain_pair(X, 0, 1).contributions}
    assert (terms.get("a missing", 0.0), terms["c missing"]) == (0.0, 3.0)
    sizes = [abs(t.contribution) for t in scorer.explain_pair(X, 0, 2).contributions]
    assert sizes == sorted(sizes, reverse=True)
    for bad in (-1, 3):
        with pytest.raises(ParameterError, match=f"3 rows, and row {bad} "):
            scorer.explain(X, bad)


def test_explanations_add_up_where_a_list_is_read_as_a_whole():
    runs = np.array([[4.0, np.nan], [1.0, 5.0], [2.0, 7.0], [np.nan, 6.5]])
    fused = Scorer(LinearModel.from_weights([1.0, 2.0], transforms=(RunScores(),)))
    holes = np.array([[np.nan, 1.0], [3.0, np.nan], [2.0, 5.0], [4.0, 7.0]])
    lowest = (MissingValues("query_min"),)
    for scorer, X in (
        (fused, runs),
        (Scorer(LinearModel.from_weights([1.0, 10.0], transforms=lowest)), holes),
        (Scorer(LinearModel.from_weights([1.0, 10.0], transforms=(*lowest, ListRange()))), holes),
    ):
        scores = scorer.score(X)
        assert len(set(scores)) == 4
        for i in range(4):
            assert scorer.explain(X, i).total == pytest.approx(scores[i])
            assert scorer.explain_pair(X, i, 2).total == pytest.approx(scores[i] - scores[2])


@pytest.mark.parametrize("base", [0, 1])
def test_missing_values_without_names_are_told_by_their_index(base):
    missing = MissingValues("indicator", (0, 1, 2), (1.0, 0.0, -3.0))
    model = LinearModel.from_weights([1.0, 2.0, 4.0], transforms=(missing,), base=base)
    told = Scorer(model).explain(np.full((2, 3), np.nan), 1)
    found = {t.name: (t.index, t.contribution) for t in told.contributions if "missing" in t.name}
    assert found == {f"{base} missing": (0, 1.0), f"{base + 2} missing": (2, -3.0)}
