"""Bodies: strict JSON within limits, errors that name the item and the column."""

import json
import random
from types import SimpleNamespace

import msgspec
import pytest

from rankine.core.specs import LogColumns, OneHot
from rankine.serve.answers import _RANK, read, structural_colons
from rankine.serve.limits import Limits
from rankine.serve.registry import _category_values
from rankine.serve.wire import Refusal


def test_colons_are_counted_outside_strings():
    rng = random.Random(4)
    for _ in range(200):
        value = {
            "".join(rng.choices('a:"\\{', k=4)) + str(k): "".join(rng.choices(':,"\\n', k=6))
            for k in range(rng.randint(0, 5))
        }
        assert structural_colons(json.dumps(value).encode()) == len(value)


def test_limits_of_lists_items_and_features():
    small = Limits(lists=2, items=3, features=2)
    item = b'{"features":{"a":1,"b":2}}'
    good = b'{"items":[' + b",".join([item] * 3) + b"]}"
    assert len(read(_RANK, good, small)[1][0].items) == 3
    bad = [
        b'{"items":[' + b",".join([item] * 4) + b"]}",
        b'{"items":[{"features":{"a":1,"b":2,"c":3}}]}',
        b'{"items":[{"raw":{"a":1,"b":2,"c":3}}]}',
        b'{"items":[{"indices":[1,2,3],"values":[1,2,3]}]}',
        b'{"lists":[{"items":[]},{"items":[]},{"items":[]}]}',
    ]
    for body in bad:
        with pytest.raises(Refusal) as caught:
            read(_RANK, body, small)
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
def test_a_key_that_stands_twice_is_refused(body):
    with pytest.raises(Refusal, match="stands twice"):
        read(_RANK, body, Limits())


@pytest.mark.parametrize(
    ("item", "form", "value"),
    [
        (0, "features", '"dear"'),
        (2, "features", "null"),
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
    with pytest.raises(Refusal) as caught:
        read(_RANK, text.encode(), Limits())
    of_list = " of list 1" if batch else ""
    assert caught.value.message.startswith(f"item {item}{of_list}: 'price' in {form} is ")


def test_other_faults_keep_the_path_of_the_decoder():
    for body in (b'{"items": [{"indices": ["a"], "values": [1]}]}', b'{"items": 1}', b'{"x": 1}'):
        with pytest.raises(Refusal) as caught:
            read(_RANK, body, Limits())
        with pytest.raises(msgspec.ValidationError) as original:
            _RANK.decode(body)
        assert caught.value.message == str(original.value)


def test_an_example_shows_three_values_of_a_column():
    spec = LogColumns(("price",), (OneHot("size", ("s", "m", "l", "xl")),), ("brand",))
    names = [f"brand={k}" for k in "abcd"] + ["price", "other=x", "brand=a x size=m"]
    found = _category_values(SimpleNamespace(weight_names=names), spec, ["price", "brand", "size"])
    assert found == {"brand": ["a", "b", "c"], "size": ["s", "m", "l"]}
