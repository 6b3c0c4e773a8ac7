"""Bodies: strict JSON within limits, errors that name the item and the column."""

import json
import random
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from msgspec import UNSET

import rankine
from rankine.core.specs import LogColumns, OneHot
from rankine.serve.handlers import (
    _RANK,
    _name_items,
    _rows,
    count_structural_colons,
    decode_request,
    error_result,
)
from rankine.serve.limits import Limits
from rankine.serve.registry import _category_values
from rankine.serve.schemas import Item, ListRequest, RequestError


def test_an_error_names_the_model_if_it_is_known():
    refusal = RequestError(422, "schema", "wrong", "Mend it")
    answer = error_result(refusal)
    assert (answer.status, answer.n_items, answer.issues) == (422, 0, None)
    told = {"code": "schema", "message": "wrong", "fix": "Mend it"}
    assert json.loads(answer.body) == {"error": told}
    known = error_result(refusal, SimpleNamespace(name="shop", digest="d"))
    assert json.loads(known.body) == {"error": told, "model": "shop", "digest": "d"}


def test_colons_are_counted_outside_strings():
    rng = random.Random(4)
    for _ in range(200):
        value = {
            "".join(rng.choices('a:"\\{', k=4)) + str(k): "".join(rng.choices(':,"\\n', k=6))
            for k in range(rng.randint(0, 5))
        }
        assert count_structural_colons(json.dumps(value).encode()) == len(value)


def test_raw_items_are_named_by_the_item_column_of_the_log():
    items = [
        Item(raw={"sku": "a", "price": 1.0}), Item(id=7, raw={"sku": "b"}), Item(raw={"price": 2}),
        Item(features={"sku": 1.0}), Item(raw={"sku": None}),
    ]  # fmt: skip
    _name_items(items, "sku")
    assert [item.id for item in items] == ["a", 7, UNSET, UNSET, UNSET]
    _name_items(items[2:], None)
    assert items[2].id is UNSET


def test_limits_of_lists_items_and_features():
    small = Limits(lists=2, items=3, features=2)
    item = b'{"features":{"a":1,"b":2}}'
    good = b'{"items":[' + b",".join([item] * 3) + b"]}"
    assert len(decode_request(_RANK, good, small)[1][0].items) == 3
    bad = [
        b'{"items":[' + b",".join([item] * 4) + b"]}",
        b'{"items":[{"features":{"a":1,"b":2,"c":3}}]}',
        b'{"items":[{"raw":{"a":1,"b":2,"c":3}}]}',
        b'{"items":[{"indices":[1,2,3],"values":[1,2,3]}]}',
        b'{"lists":[{"items":[]},{"items":[]},{"items":[]}]}',
    ]
    for body in bad:
        with pytest.raises(RequestError) as caught:
            decode_request(_RANK, body, small)
        assert (caught.value.status, caught.value.code) == (422, "limit")


@pytest.mark.parametrize(
    "body",
    [
        b'{"items":[],"items":[]}',
        b'{"items":[{"features":{"a":1,"a":1}}]}',
        b'{"items":[{"raw":{"a:":1,"a:":1}}]}',
        b'{"items":[{"id":"\\":","raw":{"b":1,"b":"x:"}}]}',
        b'{"lists":[{"items":[],"items":[{"features":{}}]}]}',
    ],
)
def test_a_repeated_key_is_refused(body):
    with pytest.raises(RequestError, match="is repeated"):
        decode_request(_RANK, body, Limits())


@pytest.mark.parametrize(
    ("item", "form", "value"),
    [
        (0, "features", '"dear"'),
        (2, "features", "[null]"),
        (1, "features", "true"),
        (1, "features", "1e400"),
        (3, "features", "9" * 400),
        (2, "raw", "[1]"),
        (0, "raw", '{"b": 1}'),
        (3, "raw", "1e400"),
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_a_value_of_another_type_is_named_with_its_item_and_column(item, form, value, batch):
    items = [f'{{"{form}": {{"size": 1, "price": 2}}}}'] * 5
    items[item] = items[item].replace("2}", value + "}")
    text = f'{{"items": [{", ".join(items)}]}}'
    if batch:
        text = f'{{"lists": [{{"items": []}}, {text}]}}'
    with pytest.raises(RequestError) as caught:
        decode_request(_RANK, text.encode(), Limits())
    of_list = " of list 1" if batch else ""
    assert caught.value.message.startswith(f"item {item}{of_list}: 'price' in {form} is ")


@pytest.mark.parametrize("batch", [False, True])
def test_a_value_of_another_type_is_named_in_a_context(batch):
    text = '{"context": {"size": 1, "shop": [1]}, "items": [{"raw": {"size": 1}}]}'
    if batch:
        text = f'{{"lists": [{{"items": []}}, {text}]}}'
    with pytest.raises(RequestError, match=f"context{' of list 1' * batch}: 'shop' in context is "):
        decode_request(_RANK, text.encode(), Limits())


def test_null_is_a_missing_value_for_a_model_that_has_a_rule_for_it():
    X, y = np.array([[1.0, np.nan], [0.0, 2.0], [2.0, 1.0]]), [1, 0, 2]
    model = rankine.RankSVM(missing="query_min").fit(X, y).to_model()
    body = b'{"items": [{"features": {"1": 1, "2": null}}, {"features": {"1": 0, "2": 2}}]}'
    rows = _rows(decode_request(_RANK, body, Limits())[1][0], model, has_rules=False)
    np.testing.assert_array_equal(
        rankine.Scorer(model).score(rows), rankine.Scorer(model).score(X[:2])
    )


def test_other_errors_keep_the_path_of_the_decoder():
    for body in (b'{"items": [{"indices": ["a"], "values": [1]}]}', b'{"items": 1}', b'{"x": 1}'):
        with pytest.raises(RequestError) as caught:
            decode_request(_RANK, body, Limits())
        with pytest.raises(msgspec.ValidationError) as original:
            _RANK.decode(body)
        assert caught.value.message == str(original.value)


def test_an_example_shows_three_values_of_a_column():
    spec = LogColumns(("price",), (OneHot("size", ("s", "m", "l", "xl")),), ("brand",))
    names = [f"brand={k}" for k in "abcd"] + ["price", "other=x", "brand=a x size=m"]
    found = _category_values(SimpleNamespace(weight_names=names), spec, ["price", "brand", "size"])
    assert found == {"brand": ["a", "b", "c"], "size": ["s", "m", "l"]}


def model_of(base, n_features):
    """The index base and the number of columns of a model."""
    return SimpleNamespace(base=base, n_columns=n_features)


def items_of(text, base=1, n_features=5):
    request = decode_request(_RANK, json.dumps({"items": text}).encode(), Limits())
    return _rows(request[1][0], model_of(base, n_features), has_rules=False)


@pytest.mark.parametrize("base", [0, 1])
def test_indices_rise_within_an_item_and_stay_within_the_model(base):
    rng = random.Random(1)
    for _ in range(300):
        lists = [[rng.randint(-1, 6) for _ in range(rng.randint(0, 3))] for _ in "abc"]
        items = [{"id": 1, "indices": one, "values": [1.5] * len(one)} for one in lists]
        inside = all(base <= j < base + 5 for one in lists for j in one)
        rising = all(one == sorted(set(one)) for one in lists)
        if inside and rising:
            rows = items_of(items, base)
            assert rows.indptr.tolist() == np.cumsum([0, *map(len, lists)]).tolist()
            assert rows.indices.tolist() == [j - base for one in lists for j in one]
            assert (rows.data == 1.5).all()
            assert rows.shape == (3, 5)
        else:
            reason = f"outside {base} .. {4 + base}" if not inside else "not strictly increasing"
            with pytest.raises(RequestError, match=reason):
                items_of(items, base)


@pytest.mark.parametrize(
    "item",
    [
        {"indices": [1]},
        {"values": [1]},
        {"features": {}, "indices": [1]},
        {"features": {}, "values": [1]},
        {"features": {}, "indices": [1], "values": [1]},
        {"raw": {}, "indices": [1]},
        {"raw": {}, "values": [1]},
        {"raw": {}, "indices": [1], "values": [1]},
        {"raw": {}, "features": {}},
        {"id": 1},
    ],
)
def test_an_item_has_one_form(item):
    with pytest.raises(
        RequestError, match="item 1 must have features, or indices and values, or raw"
    ):
        items_of([{"features": {}}, item])


@pytest.mark.parametrize("more", [{}, {"id": "x:y"}, {"id": 7}])
@pytest.mark.parametrize(
    "form",
    [
        {"features": {"a:b": 1.0, "c": 2.0}},
        {"features": {}},
        {"raw": {"a": "b:c", "d": None, "e": True}},
        {"indices": [1, 3], "values": [0.5, 2.0]},
    ],
)
def test_valid_items_are_accepted_with_names_and_colons(form, more):
    request = {"items": [{**form, **more}, form], "model": "m:n", "unknown": "zero", "k": 3}
    found, (one,) = decode_request(_RANK, json.dumps(request).encode(), Limits())
    assert (found.model, found.k, len(one.items)) == ("m:n", 3, 2)
    context = {"context": {"f": "g:h", "i": 1}} if "raw" in form else {}
    lists = [{"items": [form], "id": "a:b", **context}, {"items": []}, {"items": [form] * 2}]
    _, found = decode_request(_RANK, json.dumps({"lists": lists}).encode(), Limits())
    assert [len(one.items) for one in found] == [1, 0, 2]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"items": [], "lists": []}, "pass either items"),
        ({}, "pass either items"),
        ({"items": [{"features": {}}], "context": {"a": 1}}, "context goes with raw items"),
        ({"items": [{"features": {}}, {"raw": {}}]}, "differ in form"),
        ({"items": [{"raw": {}}, {"indices": [], "values": []}]}, "differ in form"),
        ({"items": [{"indices": [], "values": []}, {"features": {}}]}, "differ in form"),
        ({"items": [{"indices": [1, 2], "values": [1]}]}, "more indices than values, or fewer"),
        ({"items": [{"indices": [1], "values": [1, 2]}]}, "more indices than values, or fewer"),
        ({"items": [{"indices": [2**70], "values": [1]}]}, "outside 1 .. 5"),
        ({"items": [{"indices": [-(2**70)], "values": [1]}]}, "outside 1 .. 5"),
    ],
)
def test_fields_that_exclude_each_other_are_refused(request_, reason):
    with pytest.raises(RequestError, match=reason) as caught:
        _, (one,) = decode_request(_RANK, json.dumps(request_).encode(), Limits())
        _rows(one, model_of(1, 5), has_rules=False)
    assert caught.value.status == 422


def test_a_batch_has_a_limit_and_no_common_context():
    two = {"lists": [{"items": []}, {"items": []}]}
    assert len(decode_request(_RANK, json.dumps(two).encode(), Limits(lists=2))[1]) == 2
    with pytest.raises(RequestError, match="cannot be combined with lists"):
        decode_request(_RANK, json.dumps({**two, "context": {"a": 1}}).encode(), Limits())


def test_an_error_names_the_expected_type():
    for form, wanted in (
        ("features", "not a number or null"),
        ("raw", "not text, a number, a bool or null"),
    ):
        with pytest.raises(RequestError) as caught:
            items_of([{form: {"a": [1]}}])
        assert caught.value.message.endswith(wanted)


def test_a_raw_item_overrides_the_context():
    items = [Item(raw={"a": 2, "b": 3}), Item(raw={})]
    each = ListRequest(items, context={"a": 1, "c": 4})
    assert _rows(each, model_of(1, 3), has_rules=False) == [
        {"a": 2, "b": 3, "c": 4},
        {"a": 1, "c": 4},
    ]
