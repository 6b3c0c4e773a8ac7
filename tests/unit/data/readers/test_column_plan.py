"""Columns of a table and their roles."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rankine.core.errors import SchemaError
from rankine.data.options import ReadOptions
from rankine.data.readers.column_plan import plan_columns

SCHEMA = pa.schema(
    {"qid": pa.int64(), "label": pa.int8(), "a": pa.float32(), "b": pa.float32(), "t": pa.string()}
)


def plan(schema=SCHEMA, hive_columns=(), **options):
    return plan_columns(schema, ReadOptions.make(**options), hive_columns)


def test_numbers_without_a_role_are_features():
    found = plan(SCHEMA.remove(4))
    assert (found.label, found.query, found.features) == ("label", "qid", ("a", "b"))
    assert found.n_features == 2
    assert found.feature_names == ("a", "b")
    assert found.dtype == "float32"
    assert found.columns == ["label", "qid", "a", "b"]


def test_a_wider_column_makes_a_wider_matrix():
    schema = SCHEMA.remove(4).set(3, pa.field("b", pa.float64()))
    assert plan(schema).dtype == "float64"


def test_columns_that_are_asked_for_are_no_features():
    found = plan(columns=["b", "t"])
    assert (found.features, found.extra) == (("a",), ("b", "t"))
    assert plan(features=["b"]).features == ("b",)


def test_columns_of_folders_are_features_only_by_name():
    schema = SCHEMA.remove(4).append(pa.field("year", pa.int32()))
    assert plan(schema, ("year",)).features == ("a", "b")
    assert plan(schema, ("year",), features=["year", "a"]).features == ("year", "a")


def test_lists_of_indices_and_values_are_sparse_rows():
    schema = pa.schema({
        "qid": pa.int64(), "label": pa.int8(),
        "indices": pa.list_(pa.int32()), "values": pa.list_(pa.float32()),
    })  # fmt: skip
    found = plan(schema)
    assert found.sparse
    assert found.n_features is None


@pytest.mark.parametrize(
    ("schema", "options", "column"),
    [
        (SCHEMA, {}, "t"),
        (SCHEMA, {"label": "clicks"}, "clicks"),
        (SCHEMA.remove(1), {}, "label"),
        (SCHEMA.append(pa.field("a", pa.int8())), {}, "a"),
    ],
)
def test_errors_name_the_column(schema, options, column):
    with pytest.raises(SchemaError) as caught:
        plan(schema, **options)
    assert column in str(caught.value)
