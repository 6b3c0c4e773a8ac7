"""Transform specs: they are read back as written, and invalid ones are rejected."""

from __future__ import annotations

import re
from bisect import bisect_right

import msgspec
import pytest

from rankine.core.specs import (
    FUSION_RULES,
    MAX_CUTS,
    MAX_HASH_BITS,
    Binned,
    Bins,
    GridAxis,
    Grids,
    ListRange,
    LogColumns,
    MissingValues,
    OneHot,
    OutcomeCalibration,
    RunScores,
    check_cuts,
    decode_transforms,
    encode_transforms,
)

BRAND, AGE = OneHot("brand", ("acme", "zeta")), Binned("age", (1.0, 2.5))
MANY = tuple(map(float, range(MAX_CUTS)))

VALID = [
    lambda: LogColumns(("price",), (BRAND,), ("shop",), (("shop", "brand"),), 1),
    lambda: LogColumns(hash_bits=MAX_HASH_BITS),
    lambda: LogColumns(("price",), (BRAND,), tables=True),
    lambda: LogColumns(("price",), binned=(AGE,), crosses=(("a", "b"), ("b", "a"))),
    lambda: Bins((MANY, (), (0.0,)), (0,), (1,), ("a", "b", "c")),
    lambda: Bins(((1.0,), ()), (0, 1), ()),
    lambda: Bins(((), ()), (), (0, 1)),
    lambda: Grids((GridAxis(0, (0, 1, 1)), GridAxis(3, tuple(range(256)))), ((0, 1),)),
    lambda: MissingValues("mean", (0, 2), (1.0, -2.0)),
    lambda: MissingValues("indicator", (1,), (0.5,)),
    lambda: MissingValues("zero"),
    lambda: MissingValues("query_min"),
    lambda: RunScores(rank_constant=0.0),
]
#: Part of the message -> invalid specs.
INVALID = {
    "numeric and one-hot": [
        lambda: LogColumns(hashed=("a",), tables=True),
        lambda: LogColumns(crosses=(("a", "b"),), tables=True),
        lambda: LogColumns(binned=(AGE,), tables=True),
    ],
    "hash_bits": [lambda: LogColumns(hash_bits=0), lambda: LogColumns(hash_bits=MAX_HASH_BITS + 1)],
    "two different columns": [
        lambda: LogColumns(crosses=(("a", "a"),)),
        lambda: LogColumns(crosses=(("a", "b"), ("a",))),
    ],
    "column 'age' has two encodings": [
        lambda: LogColumns(("age",), binned=(AGE,)),
        lambda: LogColumns(("price", "age"), hashed=("age",)),
        lambda: LogColumns(hashed=("age", "age"), crosses=(("a", "b"), ("a", "b"))),
    ],
    "a cross is given twice": [lambda: LogColumns(crosses=(("a", "b"), ("a", "b")))],
    "more than 254": [
        lambda: check_cuts((*MANY, 1e9)),
        lambda: LogColumns(binned=(Binned("x", (*MANY, 1e9)),)),
    ],
    "finite": [
        lambda: check_cuts((float("nan"),)),
        lambda: check_cuts((1.0, float("inf"))),
        lambda: MissingValues("mean", (0,), (float("nan"),)),
        lambda: MissingValues("mean", (0, 1), (1.0,)),
    ],
    "increase": [
        lambda: check_cuts((1.0, 1.0)),
        lambda: check_cuts((2.0, 1.0)),
        lambda: Bins(((2.0, 1.0),)),
    ],
    "once, in order": [
        lambda: Bins(((), ()), (1, 0)),
        lambda: Bins(((), ()), (0, 0)),
        lambda: Bins(((), ()), (), (2,)),
        lambda: Bins(((), ()), (-1,)),
        lambda: MissingValues("mean", (1, 0), (1.0, 1.0)),
        lambda: MissingValues("mean", (-1,), (1.0,)),
    ],
    "linear column": [lambda: Bins(((1.0,),), (), (0,))],
    "names must be distinct": [
        lambda: Bins(((), ()), names=("a", "a")),
        lambda: Bins(((),), names=()),
    ],
    "numbered from 0": [
        lambda: Grids((GridAxis(-1, (0, 1)),), ()),
        lambda: Grids((GridAxis(0, tuple(range(257))),), ()),
        lambda: Grids((GridAxis(0, (0, 2)),), ()),
        lambda: Grids((GridAxis(0, (1, 2)),), ()),
    ],
    "two different axes": [
        lambda: Grids((GridAxis(0, (0, 1)), GridAxis(1, (0,))), ((1, 0),)),
        lambda: Grids((GridAxis(0, (0, 1)), GridAxis(1, (0,))), ((0, 0),)),
        lambda: Grids((GridAxis(0, (0, 1)), GridAxis(1, (0,))), ((0, 1), (0, 2))),
        lambda: Grids((GridAxis(0, (0, 1)), GridAxis(1, (0,))), ((-1, 1),)),
    ],
    "negative": [
        lambda: RunScores(rank_constant=-0.5),
        lambda: RunScores(rank_constant=float("nan")),
    ],
    "must not have values": [
        lambda: MissingValues("zero", (0,), (1.0,)),
        lambda: MissingValues("query_min", (0,), (1.0,)),
    ],
}


@pytest.mark.parametrize("make", VALID)
def test_specs_are_read_back_as_written(make):
    spec = make()
    assert decode_transforms(encode_transforms((spec, ListRange()))) == (spec, ListRange())


@pytest.mark.parametrize(
    ("reason", "make"), [(reason, make) for reason, cases in INVALID.items() for make in cases]
)
def test_invalid_specs_are_rejected(reason, make):
    with pytest.raises(ValueError, match=reason):
        make()


def test_unknown_transforms_and_fields_are_rejected():
    for data in ([{"type": "unknown"}], [{"type": "list_range", "more": 1}], {}):
        with pytest.raises(msgspec.ValidationError):
            decode_transforms(data)


def test_binned_columns_are_written_only_if_there_are_any():
    plain, binned = encode_transforms((LogColumns(("price",)), LogColumns(binned=(AGE,))))
    assert "binned" not in plain
    assert plain["hash_bits"] == 20
    assert [field["column"] for field in binned["binned"]] == ["age"]


def test_an_engine_has_its_normalisations_and_no_others():
    names = {name for rules in FUSION_RULES.values() for name in rules.normalizations}
    for engine, rules in FUSION_RULES.items():
        for name in names:
            if name in rules.normalizations:
                assert RunScores(name, engine).engine == engine
            else:
                with pytest.raises(ValueError, match=f"{engine} has no normalisation {name}"):
                    RunScores(name, engine)


@pytest.mark.parametrize(
    "cuts",
    [(), (0.0,), (-2.0, 0.5, 7.0), (1.0, 1.0000001), (1.0, 1.0 + 2**-40), (1e-7, 2e-7, 1e300)],
)
def test_names_of_cells_are_conditions_that_hold_for_their_values(cuts):
    column = Binned("x", cuts)
    *names, missing = column.names
    assert missing == "x missing"
    assert column.n_cells == len(set(column.names)) == len(cuts) + 2
    if not cuts:
        assert names == ["x given"]
        return
    cuts_in_names = [float(end) for end in re.findall(r"-?[\d.]+(?:e[+-]\d+)?", " ".join(names))]
    edges = sorted(set(cuts_in_names))
    assert edges == pytest.approx(cuts, rel=1e-6)
    assert len(edges) == len(cuts)
    for x in (-1e9, *edges, *(end + 1e-12 for end in edges), 1e301):
        truths = [eval(name, {"x": x}) for name in names]  # noqa: S307 - our own text
        assert truths.index(True) == bisect_right(edges, x)
        assert sum(truths) == 1


def test_features_of_a_log_are_in_the_documented_order():
    spec = LogColumns(
        ("price",), (BRAND, OneHot("size", ("s",))), ("shop",), (("shop", "day"),), 3,
        ("query",), (AGE, Binned("n", ())),
    )  # fmt: skip
    assert spec.names == ("price", "brand=acme", "brand=zeta", "size=s", *AGE.names, "n given",
                          "n missing")  # fmt: skip
    assert (spec.bin_start, spec.hash_start) == (4, len(spec.names))
    assert spec.n_features == len(spec.names) + 2**3
    assert spec.columns == ("price", "brand", "size", "age", "n", "shop", "day")
    assert spec.read_columns == msgspec.structs.replace(spec, ignored=())
    for part in ({"hashed": ()}, {"crosses": ()}):
        assert msgspec.structs.replace(spec, **part).n_features == spec.n_features
    plain = msgspec.structs.replace(spec, hashed=(), crosses=())
    assert plain.n_features == len(plain.names)
    tables = LogColumns(("price", "age"), (BRAND,), tables=True)
    assert tables.names == tables.columns == ("price", "age", "brand")
    assert tables.bin_start == tables.n_features == 3


def test_cells_of_columns_and_grids_are_counted():
    assert Bins(((1.0, 2.0), (), (5.0,), ()), (2,), (3,)).n_cells == (4, 2, 3, 0)
    axes = GridAxis(0, (0, 1, 1, 2)), GridAxis(2, (1, 0)), GridAxis(4, (0,))
    assert [axis.size for axis in axes] == [3, 2, 1]
    assert Grids(axes, ((0, 1), (0, 2), (1, 2))).n_cells == (6, 3, 2)


CALIBRATION = OutcomeCalibration(
    outcome="clicked", scores=(0.0, 1.0), logits=(-2.0, 2.0), tails=(1.0, 1.0)
)


@pytest.mark.parametrize(
    "changes",
    [
        {"scores": (1.0, 0.0)},
        {"logits": (2.0, 2.0)},
        {"scores": (0.0,), "logits": (1.0,)},
        {"scores": (0.0, 1.0, 2.0)},
        {"logits": (-2.0, float("inf"))},
        {"tails": (1.0, 0.0)},
        {"position": "position"},
        {"examination": (1.0,)},
        {"position": "position", "examination": (1.0, 1.5)},
    ],
)
def test_a_calibration_increases_and_its_probabilities_are_some(changes):
    assert msgspec.structs.replace(CALIBRATION, scores=(0.0, 0.5)).scores == (0.0, 0.5)
    with pytest.raises(ValueError, match=r"calibration|examination"):
        msgspec.structs.replace(CALIBRATION, **changes)
