"""The same rows give the same features and scores in every format, or a typed error."""

from __future__ import annotations

import csv
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankine import LinearModel, Scorer, logs
from rankine.core.column_values import category_text, number_of
from rankine.core.errors import RankineError
from rankine.transforms.apply import score_dataset

TEXTS = ["01234", "1e5", "0x1", "NA", "null", "True", "", "é", "nan", "a,b", "7", "5.5", "12:30"]
KINDS = (
    "text",
    "integer",
    "long",
    "boolean",
    "whole",
    "fraction",
    "date",
    "time",
    "decimal",
    "null",
)
START = datetime(2026, 11, 1, 10, 30, tzinfo=UTC)


def draw_column(rng, kind, n_rows):
    """Return Python values of one kind, some of them missing, and their Arrow array."""
    arrow_type = None
    if kind == "text":
        some = rng.choice(TEXTS, rng.integers(1, 6), replace=False)
        values = [str(text) for text in rng.choice(some, n_rows)]
    elif kind == "integer":
        values = rng.integers(-3, 4, n_rows).tolist()
    elif kind == "long":
        values = [12345678901234567890 + k for k in rng.integers(0, 3, n_rows).tolist()]
        arrow_type = pa.uint64()
    elif kind == "boolean":
        values = (rng.random(n_rows) < 0.5).tolist()
    elif kind == "whole":
        values = rng.integers(0, 4, n_rows).astype(float).tolist()
    elif kind == "fraction":
        values = rng.choice([0.1, 2.5, 1e-7, 3e20], n_rows).tolist()
    elif kind == "date":
        values = [
            date(2026, 11, 1) + timedelta(days=k) for k in rng.integers(0, 4, n_rows).tolist()
        ]
    elif kind == "time":
        unit, zone = rng.choice(["ms", "us", "ns"]), rng.choice(["", "UTC", "Asia/Tokyo"])
        arrow_type = pa.timestamp(unit, zone or None)
        offsets = rng.integers(0, 10**9, n_rows).tolist()
        values = [START + timedelta(milliseconds=k) for k in offsets]
        if not zone:
            values = [value.replace(tzinfo=None) for value in values]
    elif kind == "decimal":
        values = [Decimal(k) / 4 for k in rng.integers(0, 3, n_rows).tolist()]
        arrow_type = pa.decimal128(10, 2)
    else:
        values = [None] * n_rows
    missing = rng.random(n_rows) < rng.choice([0.0, 0.2])
    values = [None if absent else value for value, absent in zip(values, missing, strict=True)]
    return values, pa.array(values, arrow_type)


def as_text(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return str(value)


def as_json(value):
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    return value


def write_formats(folder, names, columns, table):
    """Yield the name of each format, and the rows in it."""
    rows = list(zip(*columns, strict=True))
    pq.write_table(table, folder / "log.parquet", row_group_size=max(1, len(rows) // 3))
    yield "parquet", folder / "log.parquet"
    with pa.ipc.new_file(folder / "log.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    yield "arrow", folder / "log.arrow"
    with (folder / "log.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *([as_text(x) for x in row] for row in rows)])
    yield "csv", folder / "log.csv"
    lines = [json.dumps(dict(zip(names, map(as_json, row), strict=True))) for row in rows]
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    yield "json", folder / "log.jsonl"
    yield "table", table
    encoded = {
        name: column.combine_chunks().dictionary_encode()
        for name, column in zip(names, table.columns, strict=True)
        if not pa.types.is_null(column.type)
    }
    yield (
        "dictionary",
        table.from_pydict({**dict(zip(names, table.columns, strict=True)), **encoded}),
    )
    yield "pandas", table.to_pandas()
    polars = pytest.importorskip("polars")
    yield "polars", polars.from_arrow(table)
    yield "lazy", polars.from_arrow(table).lazy()


def expect(values, use):
    """Return the texts or numbers of a column; None where some value is refused."""
    function = number_of if use == "number" else category_text
    try:
        return [function(value) for value in values]
    except (TypeError, ValueError):
        return None


def may_differ(form, kind, use):
    """Whether a format says less than the values that were written."""
    if form == "csv":
        # Texts such as 1e5 are numbers in a column of numbers; other columns are ambiguous.
        return kind == "text" or (
            use != "number" and kind in ("whole", "time", "decimal", "fraction")
        )
    if form in ("json", "request"):
        return kind == "time" or (kind in ("long", "decimal") and form == "json")
    # Frames hold missing integers and booleans as objects or floats.
    return form == "pandas" and kind == "long"


def read(source, fields):
    """Return a log and its rows, or the typed error that refuses it."""
    try:
        log = logs.scan(source, **fields)
        return log, log.load(), None
    except RankineError as error:
        return None, None, error


def check_case(folder, seed):
    """Compare all formats of one random column of one use; return the formats that agreed."""
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(8, 40))
    kind, use = (
        str(rng.choice(KINDS)),
        str(rng.choice(["number", "one_hot", "categorical", "cross"])),
    )
    values, array = draw_column(rng, kind, n_rows)
    names = ["qid", "label", "price", "value"]
    queries = np.sort(rng.integers(0, 4, n_rows)).tolist()
    columns = [queries, rng.integers(0, 2, n_rows).tolist(), rng.random(n_rows).tolist(), values]
    table = pa.table(dict(zip(names, [*columns[:3], array], strict=True)))
    fields = {"query": "qid", "label": "label", "numeric": ["price"], "hash_bits": 6}
    if use == "number":
        fields |= {"numeric": ["price", "value"], "hash_bits": None}
    elif use == "cross":
        fields["crosses"] = ["qid*value"]
    else:
        fields[use] = ["value"]
        if use == "one_hot":
            fields["hash_bits"] = None
    wanted, agreed = expect(values, use), set()
    model = reference = None
    for form, source in write_formats(folder, names, columns, table):
        block_rows = int(rng.integers(1, 50))
        log, data, error = read(source, fields | {"block_rows": block_rows})
        if error is not None:
            has_no_value = use == "one_hot" and wanted is not None and not any(wanted)
            assert wanted is None or has_no_value or may_differ(form, kind, use), (form, error)
            continue
        if may_differ(form, kind, use):
            continue
        assert wanted is not None, (form, kind, use, seed)
        if model is None:
            spec = log.log_encoding().spec
            model = LinearModel.from_weights(
                rng.standard_normal(spec.n_features), transforms=(spec,)
            )
            reference = data
            if use == "number":
                np.testing.assert_array_equal(data.X.toarray()[:, 1], wanted)
        assert log.log_encoding().spec.read_columns == spec.read_columns, (form, kind, use, seed)
        np.testing.assert_array_equal(data.X.toarray(), reference.X.toarray(), f"{form} {seed}")
        if not np.isnan(reference.X.data).any():
            np.testing.assert_array_equal(
                score_dataset(model, data), score_dataset(model, reference)
            )
        agreed.add(form)
    if model is None or may_differ("request", kind, use):
        return agreed
    wanted_names = [name for name in names if name in model.transforms[0].columns]
    lines = [
        {n: as_json(x) for n, x in zip(names, row, strict=True) if n in wanted_names}
        for row in zip(*columns, strict=True)
    ]
    rows = msgspec.json.decode(msgspec.json.encode(lines))
    frame = table.select(wanted_names)
    with np.errstate(all="ignore"):
        requested = Scorer(model).score(rows)
        np.testing.assert_array_equal(requested, Scorer(model).score(frame), f"{kind} {seed}")
        if not np.isnan(reference.X.data).any():
            # The scorer adds in another order than the matrix product, so bits are compared above.
            np.testing.assert_allclose(requested, score_dataset(model, reference), rtol=1e-12)
            np.testing.assert_array_equal(Scorer(model).features(rows).data, reference.X.data)
            np.testing.assert_array_equal(Scorer(model).features(rows).indices, reference.X.indices)
    return agreed | {"request"}


def check_cases(folder, seeds):
    counts = dict.fromkeys(("parquet", "csv", "json", "pandas", "polars", "lazy", "request"), 0)
    for seed in seeds:
        for form in check_case(folder, seed) & set(counts):
            counts[form] += 1
    # The comparison is not empty: most cases agree in every format.
    assert min(counts.values()) > len(seeds) * 0.3, counts


def test_formats_agree(tmp_path):
    check_cases(tmp_path, range(25))


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_many_formats_agree(tmp_path):
    check_cases(tmp_path, range(100, 2600))
