"""Sets of values in a model file: nearly exact, and equal for any division of the rows."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine.core.specs import LogColumns
from rankine.transforms.drift import DriftMonitor, summarise
from rankine.transforms.value_sets import (
    FINE_BITS,
    MAX_SIZES,
    ValueHasher,
    ValueSet,
)


def set_of(values):
    result = ValueSet()
    result.add(ValueHasher("brand").hash_distinct({"brand": list(values)}))
    return result


def test_a_set_does_not_depend_on_order_or_division_and_survives_packing():
    rng = np.random.default_rng(0)
    for n, bits in ((0, 28), (1, 28), (2**16, 28), (80_000, 24), (200_000, 20)):
        hashes = rng.choice(2**FINE_BITS, n, replace=False)
        whole, parts = ValueSet(), ValueSet()
        whole.add(hashes)
        for part in np.array_split(hashes[::-1], 7):
            other = ValueSet()
            other.add(part)
            parts.add(other.hashes, other.bits)
        parts.add(whole.hashes, whole.bits)
        assert whole.bits == bits
        assert len(whole.hashes) <= MAX_SIZES.get(bits, n)
        again = ValueSet.unpack(whole.pack())
        for each in (parts, again):
            assert each.bits == whole.bits
            np.testing.assert_array_equal(each.hashes, whole.hashes)
        assert whole.count_new(np.append(hashes, -1)) == 0


def test_values_that_no_row_has_are_left_out():
    hasher = ValueHasher("brand")
    expected = np.sort([hasher.hash_rows({"brand": [text]})[0] for text in ("a", "b")])
    found = hasher.hash_distinct({"brand": ["b", "", "a", None, "b"]})
    assert found.tolist() == expected.tolist()
    assert (hasher.hash_rows({"brand": ["", None]}) == -1).all()


@pytest.mark.parametrize("n_values", [8, 2000, 60_000])
@pytest.mark.parametrize("n_new", [1, 50])
def test_the_share_of_new_values_is_within_half_a_point(n_values, n_new):
    """One new brand on many rows, or many: 20 seeds, 1 to 50 % of the rows."""
    spec = LogColumns(hashed=("brand",), hash_bits=4)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        share = rng.uniform(0.01, 0.5)
        known = [f"{seed}-{k}" for k in range(n_values)]
        summary = summarise(spec, {"brand": known[:10]}, np.zeros(10), 1, {"brand": set_of(known)})
        monitor = DriftMonitor(summary, spec)
        is_new = rng.random(40_000) < share
        new = [f"new {seed}-{k}" for k in rng.integers(0, n_new, 40_000)]
        old = rng.integers(0, n_values, 40_000)
        today = [new[i] if is_new[i] else known[old[i]] for i in range(40_000)]
        monitor.add({"brand": today}, 40_000, np.zeros(40_000))
        unseen = monitor.drift()[0].unseen
        assert unseen == pytest.approx(is_new.mean(), abs=0.005)


@pytest.mark.filterwarnings("ignore:the loss of the last lists")  # the clicks are random
def test_every_value_of_a_log_is_known_in_any_kind_of_column(tmp_path):
    rng = np.random.default_rng(0)
    n = 6000
    brands = rng.choice([f"b{k}" for k in range(700)], n)
    columns = {
        "session": np.repeat(np.arange(n // 6), 6),
        "brand": brands,
        "shop": rng.choice(["north", "south"], n),
        "price": rng.normal(size=n),
        "clicked": rng.integers(0, 2, n),
    }
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=500)
    today = {**columns, "brand": np.where(rng.random(n) < 0.3, "new", brands)}
    pq.write_table(pa.table(today), tmp_path / "day.parquet")
    log = rankine.logs.scan(
        tmp_path / "log.parquet", query="session", label="clicked", numeric=["price"],
        categorical=["brand", "shop"], hash_bits=4,
    )  # fmt: skip
    # Tables have 254 entries for the 700 brands, and say so.
    shared = pytest.warns(UserWarning, match="'brand' has more values .* 51% of the rows")
    for ranker, warned in (
        (rankine.ElasticRanker(random_state=0), nullcontext()), (rankine.AdditiveRanker(), shared)
    ):  # fmt: skip
        with warned:
            model = ranker.fit(log).to_model()
        day = rankine.logs.scan(tmp_path / "day.parquet", like=model)
        monitor = rankine.logs.encoding.monitor_log(model, day.blocks())
        unseen = {drift.column: drift.unseen for drift in monitor.drift()}
        truth = np.mean(today["brand"] == "new")
        assert unseen["brand"] == pytest.approx(truth, abs=0.005)
        assert unseen["shop"] == 0.0
