"""Ranked lists show ranks, labels and exact terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankine import Dataset, LinearModel
from rankine.reporting.evaluated import Opponent
from rankine.reporting.numbers import MINUS
from rankine.reporting.query_lists import ListItem, Ranked, query_lists, ranked_query
from rankine.reporting.run import evaluate_subject
from unit.reporting.report_cases import random_data, shop, words
from unit.reporting.test_svg import Drawn


def listed(y, scores, *, opponent=None, depth=10, **columns):
    """One query whose only feature is its score."""
    y, scores = np.asarray(y, dtype=float), np.asarray(scores, dtype=float)
    data = Dataset.from_arrays(scores[:, None], y, np.zeros(len(y), dtype=int), **columns)
    evaluated = evaluate_subject(LinearModel.from_weights([1.0]), data)
    return ranked_query(evaluated, 0, 0.5, opponent, None, depth=depth)


def inside(element):
    return words(" ".join(element.itertext()))


def ranked(query, labels=(2.0, 1.0, 0.0), **changed):
    left = [
        ListItem(k, f"d{k}", label, 0.5 - k, [("price", 0.25), ("age", -0.5)] if k == 1 else ())
        for k, label in enumerate(labels, 1)
    ]
    right = [ListItem(k, f"e{k}", label, None) for k, label in enumerate(labels, 1)]
    made = Ranked(query, "", 0.25, None, 1200, labels, left, "ideal order", right)
    return replace(made, **changed)


def test_a_list_shows_ranks_labels_and_exact_terms(evaluated, scores):
    test = shop()[1]
    rows = test.queries.rows_of(2)
    found = ranked_query(evaluated, 2, 0.5, evaluated.opponent("shown"), 0.4, depth=5)
    order = rows[np.argsort(-scores[rows], kind="stable")]
    assert [item.name for item in found.left[:5]] == [str(test.docid[i]) for i in order[:5]]
    by_place = rows[np.argsort(test.position[rows])]
    assert [item.name for item in found.right] == [str(test.docid[i]) for i in by_place[:5]]
    weights_of = evaluated.model.to_dense()
    for item, row in zip(found.left[:5], order[:5], strict=True):
        moves = weights_of * (test.X[row] - test.X[rows].mean(axis=0))
        strongest = np.argsort(-np.abs(moves))[:3]
        assert [value for _, value in item.terms] == pytest.approx(moves[strongest].tolist())
        assert sum(v for _, v in item.terms) + item.rest == pytest.approx(
            scores[row] - scores[rows].mean()
        )
        assert item.label == test.y[row]
    # the best items that stand below the shown depth are told with their true rank
    top = test.y[rows].max()
    missed = [k for k, row in enumerate(order, 1) if k > 5 and test.y[row] == top][:3]
    assert [item.rank for item in found.left[5:]] == missed


def test_relevant_items_ranked_too_low_are_shown():
    found = listed([0, 0, 1, 1, 0, 1, 1, 1], np.arange(8)[::-1], depth=2)
    assert [item.rank for item in found.left] == [1, 2, 3, 4, 6]
    assert [item.label for item in found.left] == [0, 0, 1, 1, 1]
    assert [item.name for item in found.left][:2] == ["row 1", "row 2"]
    flat = listed([1, 1, 1, 1], [4, 3, 2, 1], depth=2)
    assert [item.rank for item in flat.left] == [1, 2]
    assert flat.labels == [1.0]


def test_the_right_list_is_the_ideal_or_the_opponents_order():
    y, scores = [0, 2, 1], [3.0, 2.0, 1.0]
    ideal = listed(y, scores)
    assert ideal.right_name == "ideal order"
    assert [item.label for item in ideal.right] == [2, 1, 0]
    assert [item.score for item in ideal.right] == [None] * 3
    assert ideal.length == 3
    other = np.array([0.5, 0.1, 0.9])
    found = listed(y, scores, opponent=Opponent("against", "old", other))
    assert (found.right_name, [item.score for item in found.right]) == ("old", [0.9, 0.5, 0.1])
    shown = listed(y, scores, opponent=Opponent("shown", "as shown", other), depth=2)
    assert [(item.name, item.score) for item in shown.right] == [("row 3", None), ("row 1", None)]


def test_queries_and_documents_are_shown_by_name():
    assert [item.rank for item in listed([1], [2.0]).left] == [1]
    columns = {"query": np.array(["x", "x"]), "text": np.array(["y", "y"])}
    found = listed([0, 1], [1.0, 2.0], docid=np.array(["", "b"]), columns=columns)
    assert [item.name for item in found.left] == ["b", "row 1"]
    assert found.text == "x"
    assert listed([0, 1], [1.0, 2.0]).text == ""


@pytest.mark.parametrize("make_sparse", [True, False])
def test_terms_of_sparse_rows_add_up_to_the_score(make_sparse):
    data = random_data(3, 5, 40, make_sparse=True)
    dense = data.X.toarray()
    weights_of = np.where(np.arange(40) % 3, np.linspace(-1, 2, 40), 0.0)
    X = data.X if make_sparse else dense
    evaluated = evaluate_subject(
        LinearModel.from_weights(weights_of), Dataset.from_arrays(X, data.y, data.qid)
    )
    for q in range(3):
        rows = evaluated.data.queries.rows_of(q)
        moves = weights_of * (dense[rows] - dense[rows].mean(axis=0))
        for item in ranked_query(evaluated, q, 0.5, None, None).left:
            (i,) = [k for k, row in enumerate(rows) if item.name == f"row {row + 1}"]
            strongest = np.argsort(-np.abs(moves[i]), kind="stable")[:3]
            assert [n for n, _ in item.terms] == [f"feature {j + 1}" for j in strongest]
            assert [v for _, v in item.terms] == pytest.approx(moves[i][strongest])
            assert item.rest == pytest.approx(moves[i].sum() - moves[i][strongest].sum())
    alone = listed([1, 0], [2.0, 2.0])
    assert [item.terms for item in alone.left] == [[], []]


def test_lists_unfold_the_first_of_each_group_and_mark_labels():
    groups = [("None", []), ("Worst", [ranked("q1"), ranked("q2")]), ("Best", [ranked("q3")])]
    made = str(query_lists(groups, "MAP"))
    root = Drawn("<div>" + made.replace("<details open>", '<details open="">') + "</div>").root
    assert [head.text for head in root.findall("h3")] == ["Worst", "Best"]
    assert ["open" in one.attrib for one in root.findall("details")] == [True, False, True]
    assert len(root.findall("figcaption")) == 1
    assert query_lists([("None", [])], "MAP") == ""
    first = root.find("details")
    assert inside(first.find("summary")) == "Query q1 MAP 0.250 1,200 items"
    left, right = first.findall("div/div")
    kinds = [
        span.attrib["class"] for span in left.findall(".//span") if "label" in span.attrib["class"]
    ]
    assert kinds == ["label high", "label some", "label"]
    assert [cell.text for cell in left.findall("table/tbody/tr/td")[:1]] == ["1"]
    assert len(left.findall("table/thead/tr/th")) == 4
    assert len(right.findall("table/thead/tr/th")) == 3
    assert left.findall("table/thead/tr/th")[2].attrib["class"] == "n"
    terms = left.findall(".//div[@class='terms']")
    assert len(terms) == 1
    assert [one.attrib["class"] for one in terms[0]] == ["plus", "minus"]
    assert inside(terms[0]) == f"price +0.25 age {MINUS}0.50"
    assert right.findall(".//div[@class='terms']") == []


def test_a_list_shows_the_query_text_and_both_values():
    told = words(query_lists([("x", [ranked("q1", text="red shoe", other_value=0.5)])], "MAP"))
    assert "“red shoe” MAP 0.250 other 0.500 1,200 items" in told
    assert "label high" in query_lists([("x", [ranked("q1", labels=(1.0, 0.0))])], "MAP")
    flat = query_lists([("x", [ranked("q1", labels=(0.0, 0.0))])], "MAP")
    assert "label high" not in flat
    assert "label some" not in flat
