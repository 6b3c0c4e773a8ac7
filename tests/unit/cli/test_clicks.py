"""``rankine clicks``: what a table of propensities holds, and which columns are read to judge."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rankine.cli._reading import ModelReadingOptions
from rankine.cli.clicks import CounterfactualOptions, _tables
from rankine.model import LinearModel

pytestmark = pytest.mark.cli


def propensity(values, contexts=()):
    return SimpleNamespace(
        values=values, low=values, high=values, rows=[1000] * len(values), clicks=[5] * len(values),
        method="harvest", pairs=3, n_units=2000, unit="lists", confidence=0.95,
        contexts=dict(contexts),
    )  # fmt: skip


def test_positions_count_from_one_in_every_table():
    phone = propensity([1.0, 0.25])
    whole, part = _tables(propensity([1.0, 0.5, 0.125], {"phone": phone}.items()), "")
    assert whole.title == "harvest: 3 groups, 2,000 units (lists)"
    assert part.title == "phone, harvest: 3 groups, 2,000 units (lists)"
    assert [row[:2] for row in whole.rows] == [("1", "1.0000"), ("2", "0.5000"), ("3", "0.1250")]
    assert [row[0] for row in part.rows] == ["1", "2"]
    assert whole.rows[0][2:] == ("[1.0000, 1.0000]", "1,000", "5")


@pytest.mark.parametrize("names", [None, ["x", "y"]])
def test_the_features_of_the_model_are_read_and_each_column_once(tmp_path, monkeypatch, names):
    class CapturedError(Exception):
        """Ends a command after its arguments were captured."""

    asked = {}

    def ask(_self, files, **options):
        asked.update(options, files=files)
        raise CapturedError

    monkeypatch.setattr(ModelReadingOptions, "open", ask)
    model = LinearModel.from_weights([1.0, 2.0], names)
    model.save(tmp_path / "m")
    options = CounterfactualOptions(item="i", search="i", logged="p", position="place")
    with pytest.raises(CapturedError):
        options.evaluate(str(tmp_path / "m"), ["log"], ModelReadingOptions(), json=True)
    assert (asked.pop("files"), asked.pop("model")) == (["log"], model)
    wanted = {"columns": ["i", "p"], "position": "place"}
    assert asked == (wanted if names is None else {**wanted, "features": ("x", "y")})
