"""Groups of options of ``rankine train`` and what they exclude."""

from __future__ import annotations

import pytest

from rankine.cli._train_options import CheckpointOptions, ClickCorrectionOptions, ClusterOptions
from rankine.core.errors import ParameterError
from rankine.logs.schema import LogSchema

pytestmark = pytest.mark.cli


def test_streams_and_partitions_exclude_each_other():
    with pytest.raises(ParameterError) as caught:
        ClusterOptions(dask="here").check(stream=True)
    assert caught.value.parameter == "stream"
    ClusterOptions().check(stream=True)
    ClusterOptions(dask="here", repartition=True, partition_mb=1, timeout=1.0).check(stream=False)


def test_click_options_that_need_each_other(tmp_path):
    looks = tmp_path / "looks.json"
    looks.write_text('{"propensity": [1.0, 0.5]}')
    known = LogSchema("q", numeric=("x",), item="sku")
    for options, label, settings, schema, formula in (
        ({}, "y", {}, None, None),
        ({"position": "p"}, "y", {"propensity": [1.0]}, None, None),
        ({"position": "p"}, "y", {"position_offset": 3}, None, None),
        ({"position": "p", "position_offset": 3}, "y", {}, None, None),
        ({"position": "p", "item": "i"}, "coec(y)", {}, None, "y"),
        ({"propensity": "auto"}, "y", {}, known, None),
        ({"propensity": "auto", "item": "i", "search": "s", "context": "c"}, "y", {}, None, None),
        ({"max_weight": 3.0}, "y", {"propensity": [1.0]}, None, None),
        ({"max_weight": 3.0, "propensity": str(looks)}, "y", {}, None, None),
    ):
        assert ClickCorrectionOptions(**options).check(label, settings, schema) == formula
    for options, label, schema, parameter in (
        ({"position": "p"}, "y", None, "position"),
        ({"max_weight": 3.0}, "y", None, "max_weight"),
        ({"max_weight": 3.0, "propensity": "x", "item": "i"}, "coec(y)", None, "max_weight"),
        ({"propensity": "auto"}, "y", LogSchema("q", numeric=("x",)), "item"),
        ({}, "coec(y)", None, "item"),
        ({"item": "i"}, "y", known, "item"),
        ({"search": "s"}, "y", None, "search"),
        ({"context": "c"}, "y", None, "context"),
        ({"context": "c", "propensity": "x"}, "y", None, "context"),
    ):
        with pytest.raises(ParameterError) as caught:
            ClickCorrectionOptions(**options).check(label, {}, schema)
        assert caught.value.parameter == parameter
    assert ClickCorrectionOptions(propensity="auto").load_propensity() is None
    assert ClickCorrectionOptions().load_propensity() is None
    assert ClickCorrectionOptions(propensity=str(looks)).load_propensity().values.tolist() == [
        1.0,
        0.5,
    ]


def test_checkpoint_options_become_arguments_of_fit():
    assert CheckpointOptions().options() == {}
    assert CheckpointOptions("f", 7).options() == {"checkpoint": "f", "every": 7, "resume": False}
    assert CheckpointOptions("f", resume=True).options()["every"] == 100_000
