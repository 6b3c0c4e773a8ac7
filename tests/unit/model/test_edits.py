"""Cells that fixed entries name."""

import numpy as np
import pytest

from rankine.core.edits import Edit, check_edit
from rankine.core.errors import ModelError, ParameterError
from rankine.core.specs import Bins
from rankine.model.checks import read_progress
from rankine.model.edits import MAX_FIXED, fixed_cells, resolve
from rankine.model.tables import Tables

BINS = Bins(((1.0, 2.0, 3.0), (0.0, 1.0), ()), unordered=(1,), names=("price", "brand", "one"))
TABLES = Tables(BINS, None, np.zeros(0), 0, {1: ("acme", "zeta", "rare")})


@pytest.mark.parametrize(
    ("fixed", "cells"),
    [
        ({"price": {(1, 3): 0.5}}, [1, 2]),
        ({"price": {(1.5, 1.5): 0.5}}, [1]),
        ({"price": {(2, 2): 0.5}}, [2]),
        ({"price": {(None, 1): 0.5}}, [0]),
        ({"price": {(3, None): 0.5}}, [3]),
        ({"price": {None: 0.5}}, [4]),
        ({"price": 0.5}, [0, 1, 2, 3]),
        ({"brand": {"zeta": 0.5}}, [6]),
        ({"brand": {float("inf"): 0.5}}, [7]),
        ({"one": {(0, 9): 0.5}}, [9]),
        ({2: {None: 0.5}}, [10]),
    ],
)
@pytest.mark.filterwarnings("ignore:the range")
def test_the_cells_of_an_entry(fixed, cells):
    edit = resolve(check_edit(fixed), TABLES)
    assert fixed_cells([edit], TABLES) == dict.fromkeys(cells, 0.5)
    assert isinstance(edit.fixed[0].column, str)


def test_a_range_is_recorded_as_that_of_whole_bins():
    with pytest.warns(UserWarning, match="1 <= price < 3"):
        edit = resolve(check_edit({"price": {(1.2, 2.5): 0.5}}), TABLES)
    assert (edit.fixed[0].low, edit.fixed[0].high) == (1.0, 3.0)


def test_later_edits_win_and_free():
    edits = [
        check_edit({"price": {(1, 3): 0.5}}),
        check_edit({"price": {(2, 3): 0.7}}),
        check_edit({"price": {(1, 2): None}}),
    ]
    assert fixed_cells(edits, TABLES) == {2: 0.7}


def test_entries_that_contradict_each_other():
    with pytest.raises(ParameterError, match="2 <= price < 3"):
        resolve(check_edit({"price": {(1, 3): 0.5, (2, 3): 0.6}}), TABLES)


def test_too_many_cells():
    cuts = tuple(map(float, range(250)))
    tables = Tables(Bins((cuts, cuts, cuts)), None, np.zeros(0), 0)
    with pytest.raises(ParameterError, match=str(MAX_FIXED)):
        fixed_cells([check_edit({0: 0.0, 1: 0.0, 2: 0.0})], tables)


def test_a_damaged_record_is_refused():
    edit = Edit(check_edit({"price": 1.0}).fixed).to_dict()
    assert read_progress({"edits": [edit]}).edits[0].fixed[0].value == 1.0
    edit["fixed"][0]["value"] = "x"
    with pytest.raises(ModelError):
        read_progress({"edits": [edit]})
