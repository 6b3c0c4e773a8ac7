"""The fast reader of uniform lists agrees with the general one, or stands aside."""

import json
import math
import random

import msgspec
import numpy as np
import pytest

from rankine import LinearModel, Scorer
from rankine.core.errors import FeatureMismatchError, SchemaError
from rankine.core.specs import ListRange
from rankine.scoring.table import NamedTable, exact_scores
from rankine.serve.errors import Refusal
from rankine.serve.limits import Limits
from rankine.serve.reading import read_rank, structural_colons
from rankine.serve.uniform import uniform_table

pytestmark = pytest.mark.kernels


def table(*texts, most=100):
    return uniform_table([msgspec.Raw(text.encode()) for text in texts], most)


def test_numbers_are_pythons_own():
    rng = random.Random(5)
    numbers = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30) for _ in range(300)]
    numbers += [0.0, -0.0, 1e22, 1e23, 5e-324, 2.2250738585072014e-308, 0.1 + 0.2, 2**53 + 1]
    found = [table(f'{{"a": {number!r}}}') for number in numbers]
    exact = [t.values[0, 0] for t in found if t is not None]
    wanted = [float(n) for n, t in zip(numbers, found, strict=True) if t is not None]
    assert [x.hex() for x in exact] == [x.hex() for x in wanted]
    assert len(exact) > 290


def test_rows_in_one_shape_become_a_matrix():
    found = table('{"a":1,"b":-2.5e1}', '{ "a" : 0 ,\n"b":7}')
    assert found.names == ("a", "b")
    assert found.values.tolist() == [[1.0, -25.0], [0.0, 7.0]]
    assert table("{}", "{ }").values.shape == (2, 0)
    assert table('{"ü": 1}').names == ("ü",)


@pytest.mark.parametrize(
    "texts",
    [
        ('{"a":1}', '{"b":1}'),
        ('{"a":1,"b":2}', '{"b":2,"a":1}'),
        ('{"a":1}', '{"a":1,"b":2}'),
        ('{"a":1,"b":2}', '{"a":1}'),
        ('{"a":1}', "{}"),
        ('{"a":1,"a":1}',),
        ('{"a":01}',),
        ('{"a":+1}',),
        ('{"a":.5}',),
        ('{"a":1.}',),
        ('{"a":1e}',),
        ('{"a":-}',),
        ('{"a":NaN}',),
        ('{"a":"1"}',),
        ('{"a":null}',),
        ('{"a":[1]}',),
        ('{"a":{}}',),
        ('{"a":1e400}',),
        ('{"a":12345678901234567890123}',),
        ('{"\\u0061":1}',),
        ('{"a":1,}',),
        ('{"a" 1}',),
        ('{"a":1',),
        ('{"a":1}x',),
        ('{"a":1}{',),
        ("[1]",),
        ("1",),
        ("",),
        ('{"a',),
        ('{"a"',),
        ('{"a":',),
        ("{",),
    ],
)
def test_anything_else_is_left_to_the_general_reader(texts):
    assert table(*texts) is None


def test_more_names_than_allowed_are_left_too():
    assert table('{"a":1,"b":2}', most=2) is not None
    assert table('{"a":1,"b":2}', most=1) is None


def test_no_prefix_or_flip_is_misread():
    text = '{"a":1.5,"bc":-2e3}'
    rng = random.Random(3)
    for _ in range(500):
        data = bytearray(text, "ascii")
        data[rng.randrange(len(data))] = rng.randrange(256)
        data = bytes(data[: rng.randint(1, len(data))] if rng.random() < 0.3 else data)
        found = uniform_table([msgspec.Raw(data)], 9)
        if found is not None:
            truth = json.loads(data)
            assert dict(zip(found.names, found.values[0].tolist(), strict=True)) == truth


def test_exact_scores_are_fsum():
    rng = random.Random(8)
    for width in (0, 1, 2, 5, 33):
        rows = [
            [rng.gauss(0, 1) * 10.0 ** rng.randint(-20, 20) for _ in range(width)] for _ in "xy"
        ]
        rows.append([(-1.0) ** j * 1e16 for j in range(width)])
        weights = [rng.choice([1.0, -1.0, 1e-8, rng.gauss(0, 1)]) for _ in range(width)]
        values = np.array(rows).reshape(3, width)
        out = np.empty(3)
        assert exact_scores(values, np.array(weights), out)
        expected = [math.fsum(x * w for x, w in zip(row, weights, strict=True)) for row in rows]
        assert out.tolist() == expected


def test_a_table_scores_like_its_dictionaries():
    rng = np.random.default_rng(2)
    names = [f"f{j}" for j in range(12)]
    weights = np.where(rng.random(12) < 0.3, 0.0, rng.normal(size=12))
    for transforms in ((), (ListRange(),)):
        scorer = Scorer(LinearModel.from_weights(weights, names, transforms=transforms))
        rows = NamedTable(tuple(rng.permutation(names).tolist()), rng.normal(size=(9, 12)))
        plain = rows.dictionaries()
        assert scorer.score(rows).tolist() == scorer.score(plain).tolist()
        ranking = scorer.rank(rows, 4)
        assert ranking.indices.tolist() == scorer.rank(plain, 4).indices.tolist()
        assert scorer.explain(rows, 3).total == scorer.explain(plain, 3).total


def test_unknown_names_in_a_table():
    model = LinearModel.from_weights([1.0, 2.0], ["a", "b"])
    rows = NamedTable(("b", "c"), np.array([[1.0, 5.0], [2.0, 5.0]]))
    with pytest.raises(FeatureMismatchError, match="'c'"):
        Scorer(model).score(rows)
    lenient = Scorer(model, unknown="zero")
    assert lenient.score(rows).tolist() == [2.0, 4.0]
    assert lenient.unknown_count == 2
    with pytest.raises(SchemaError):
        Scorer(model).score(NamedTable(("a", "b"), np.array([[1.7e308, 1.7e308]])))
    level = Scorer(LinearModel.from_weights([1.0, 1.0], ["a", "b"]))
    for rows in (NamedTable(("a", "b"), np.array([[1.7e308] * 2])), [{"a": 1.7e308, "b": 1.7e308}]):
        with pytest.raises(SchemaError, match="inf"):
            level.score(rows)
    with pytest.raises(SchemaError, match="not a finite number"):
        level.score([{"a": 10**400}])


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
    assert len(read_rank(good, small).lists[0].items) == 3
    bad = [
        b'{"items":[' + b",".join([item] * 4) + b"]}",
        b'{"items":[{"features":{"a":1,"b":2,"c":3}}]}',
        b'{"items":[{"raw":{"a":1,"b":2,"c":3}}]}',
        b'{"items":[{"indices":[1,2,3],"values":[1,2,3]}]}',
        b'{"lists":[{"items":[]},{"items":[]},{"items":[]}]}',
    ]
    for body in bad:
        with pytest.raises(Refusal) as caught:
            read_rank(body, small)
        assert (caught.value.status, caught.value.code) == (422, "limit")
