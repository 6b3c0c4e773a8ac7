"""History features over a log: speed beside pandas, memory, and what they add to a ranker.

    python -m benchmarks.history_offline [--part speed memory quality bandit] [--rows 2000000]

Other programs on the machine disturb times, so both programs run in turn in one process, the best
of several runs counts, and the processor seconds are given too. Columns of LightGBM are compared
where it is installed; Open Bandit is read from RANKINE_DATA. Results go to benchmarks/results.
"""

from __future__ import annotations

import argparse
import os
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common.machine import add
from rankine import AdditiveRanker, RankSVM, logs
from rankine.history.state import HistoryState
from rankine.logs.simulation import market_log
from rankine.metrics import evaluate
from rankine.transforms.apply import score_dataset

HISTORY = {
    "item_ctr": {"rate": "clicked", "by": "product_id", "half_life": "7d"},
    "query_item_ctr": {"rate": "clicked", "by": ["query", "product_id"], "half_life": "30d"},
    "user_brand": {
        "count": "clicked + 4*purchased", "by": ["user_id", "brand"], "window": "14d", "log": True,
    },
    "paid": {"mean": "price", "weight": "purchased", "by": "user_id", "half_life": "60d"},
    "hours_since_click": {"last": "clicked", "by": ["user_id", "product_id"]},
}  # fmt: skip
#: Rates by expected examinations, for the simulated market.
MARKET = {
    "item_rate": {
        "rate": "clicked", "over": "examination", "by": "product_id", "half_life": "7d",
    },
    "user_brand_rate": {
        "rate": "clicked", "over": "examination", "by": ["user_id", "brand"], "half_life": "60d",
    },
}  # fmt: skip
#: Click rates of about 0.5 %: a prior of some hundred rows.
BANDIT = {
    "item_rate": {"rate": "click", "by": "item", "prior": 200},
    "segment_kind_rate": {"rate": "click", "by": ["segment", "kind"], "prior": 200},
}
#: Parts that need no data.
_SIMULATED = ("--part", "speed", "memory", "quality")
METRIC = "ndcg@10:ties=expected"
PROPENSITY = tuple(np.arange(1, 11) ** -0.5)


def write_log(path: Path, n_rows: int) -> None:
    """Write a log of 30 days: lists of 20 rows, 50,000 users, 100,000 items, 5,000 queries."""
    rng = np.random.default_rng(0)
    length = 20
    n_lists = n_rows // length
    times = np.sort(rng.integers(0, 30 * 86400 * 10**6, n_lists)) + 1_700_000_000 * 10**6
    items = np.minimum((rng.pareto(1.0, n_lists * length) * 50).astype(np.int64), 99_999)
    queries = np.repeat(rng.integers(0, 5000, n_lists), length)
    columns = {
        "session": np.repeat(np.arange(n_lists), length),
        "ts": pa.array(np.repeat(times, length), pa.timestamp("us")),
        "user_id": np.repeat(rng.integers(0, 50_000, n_lists), length),
        "product_id": items,
        "brand": pa.array([f"b{i}" for i in range(200)]).take(pa.array(items % 200)),
        "query": pa.array([f"query {i}" for i in range(5000)]).take(pa.array(queries)),
        "price": rng.random(n_lists * length),
        "clicked": rng.random(n_lists * length) < 0.1,
        "purchased": rng.random(n_lists * length) < 0.02,
    }
    pq.write_table(pa.table(columns), path)


def with_rankine(path: Path) -> int:
    log = logs.scan(path, query="session", time="ts", history=HISTORY)
    return sum(block.n_rows for block in log.raw.blocks())


def with_pandas(path: Path) -> int:
    """Compute the features as is usual: running sums by key, joined as of the list's time.

    Nothing fades, since pandas has no point-in-time sums that do.
    """
    frame = pd.read_parquet(path)
    frame["value"] = frame.clicked + 4 * frame.purchased
    frame["paid"] = frame.price * frame.purchased
    frame["rows"] = 1
    features = {
        "item_ctr": (["product_id"], ["clicked", "rows"]),
        "query_item_ctr": (["query", "product_id"], ["clicked", "rows"]),
        "user_brand": (["user_id", "brand"], ["value"]),
        "paid": (["user_id"], ["paid", "purchased"]),
        "hours_since_click": (["user_id", "product_id"], ["clicked"]),
    }
    for keys, amounts in features.values():
        sums = frame.groupby([*keys, "ts"], sort=False)[amounts].sum().reset_index()
        sums = sums.sort_values("ts", kind="stable")
        sums[amounts] = sums.groupby(keys, sort=False)[amounts].cumsum()
        pd.merge_asof(frame[[*keys, "ts"]], sums, on="ts", by=keys, allow_exact_matches=False)
    return len(frame)


def measure_speed(n_rows: int, repeats: int) -> dict[str, object]:
    report: dict[str, object] = {"rows": n_rows, "features": len(HISTORY)}
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "log.parquet", Path(folder) / "small.parquet"
        write_log(path, n_rows)
        write_log(small, 20_000)
        with_rankine(small)  # compiles
        times: dict[str, list[tuple[float, float]]] = {"rankine": [], "pandas": []}
        for _ in range(repeats):
            for name, run in (("rankine", with_rankine), ("pandas", with_pandas)):
                wall, cpu = time.perf_counter(), time.process_time()
                run(path)
                times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    for name, values in times.items():
        wall, cpu = np.min(values, axis=0)
        report[name] = {
            "rows_per_second": round(n_rows / wall),
            "rows_per_processor_second": round(n_rows / cpu),
        }
    return report


def measure_memory() -> dict[str, object]:
    """Fill tables with the keys of a million users with three brands, and of a million items."""
    history = {
        "user_brand": {"count": "clicked", "by": ["user_id", "brand"], "half_life": "30d"},
        "item_ctr": {"rate": "clicked", "by": "product_id", "half_life": "7d"},
    }
    schema = logs.LogSchema.make({"query": "session", "time": "ts", "history": history})
    state = HistoryState(schema.history_spec())
    n_keys = {"user_brand": 3_000_000, "item_ctr": 1_000_000}
    step = 100_000
    for start in range(0, max(n_keys.values()), step):
        numbers = np.arange(start, start + step)
        columns = {
            "user_id": numbers // 3, "brand": numbers % 3, "product_id": numbers % 1_000_000,
            "clicked": np.ones(step),
        }  # fmt: skip
        keys = state.reader.read_keys(columns, step)
        amounts = state.reader.read_amounts(columns, step)
        state.add_list(start, keys, amounts, start)
        state.advance(start + 1)
    return {"keys": state.n_keys, "bytes": state.n_bytes, "gib": round(state.n_bytes / 2**30, 3)}


def measure_quality(n_lists: int, n_logs: int) -> dict[str, object]:
    """Train on clicks with and without history; NDCG@10 by the true relevance of later lists."""
    values: dict[str, list[float]] = {}
    for seed in range(n_logs):
        table = pa.table(market_log(n_lists, random_state=seed))
        for name, history in (("without", None), ("with", MARKET)):
            log = logs.scan(
                table, query="session", label="clicked", numeric=["price", "rating"], time="ts",
                position="position", columns=["relevance"], history=history,
                propensity=PROPENSITY if history else (),
            )  # fmt: skip
            parts = {part: lists.load() for part, lists in log.split("time:0.7,0.1,0.2").items()}
            test = parts["test"]
            grades = test.columns["relevance"].astype(float)
            rankers = {"RankSVM": RankSVM(propensity=PROPENSITY), "additive": AdditiveRanker()}
            scores = {
                kind: score_dataset(ranker.fit(parts["train"]).to_model(), test)
                for kind, ranker in rankers.items()
            }
            trees = lightgbm_scores(parts)
            if trees is not None:
                scores["LightGBM"] = trees
            for kind, numbers in scores.items():
                metric = evaluate(METRIC, grades, numbers, test.qid, per_query=True)
                values.setdefault(f"{kind} {name}", []).append(float(np.nanmean(metric)))
    return {
        "logs": n_logs, "lists": n_lists,
        **{name: [round(x, 4) for x in numbers] for name, numbers in values.items()},
    }  # fmt: skip


def lightgbm_scores(parts: dict[str, object]) -> np.ndarray | None:
    """Score the test lists with LambdaMART on the same columns; None if it is not installed."""
    try:
        import lightgbm
    except ImportError:
        return None
    train, valid, test = parts["train"], parts["valid"], parts["test"]
    ranker = lightgbm.LGBMRanker(n_estimators=300, learning_rate=0.05, num_leaves=15, verbose=-1)
    ranker.fit(
        train.X.toarray(), train.y, group=train.queries.sizes,
        eval_set=[(valid.X.toarray(), valid.y)], eval_group=[valid.queries.sizes],
        callbacks=[lightgbm.early_stopping(30, verbose=False)],
    )  # fmt: skip
    return ranker.predict(test.X.toarray())


def open_bandit() -> pd.DataFrame:
    """Read the six logs of Open Bandit; a list is what one policy showed in one hour."""
    path = Path(os.environ.get("RANKINE_DATA", "")) / "open_bandit_small.tar.xz"
    frames = []
    with tarfile.open(path) as archive:
        for policy in ("random", "bts"):
            for campaign in ("all", "men", "women"):
                folder = f"open_bandit_small/{policy}/{campaign}"
                rows = pd.read_csv(archive.extractfile(f"{folder}/{campaign}.csv"))
                items = pd.read_csv(archive.extractfile(f"{folder}/item_context.csv"))
                items = items.set_index("item_id").loc[rows.item_id]
                time = pd.to_datetime(rows.timestamp, format="ISO8601")
                affinity = rows.filter(regex="affinity").to_numpy()
                frames.append(pd.DataFrame({
                    "session": policy + campaign + time.dt.strftime(" %d %H"),
                    "ts": time,
                    "click": rows.click,
                    "item": campaign + rows.item_id.astype(str),
                    "segment": rows.user_feature_0,
                    "kind": items.item_feature_1.to_numpy(),
                    "item_feature": items.item_feature_0.to_numpy(),
                    "affinity": affinity[np.arange(len(rows)), rows.item_id],
                }))  # fmt: skip
    frame = pd.concat(frames)
    frame["start"] = frame.groupby("session").ts.transform("min")
    return frame.sort_values(["start", "session", "ts"], ignore_index=True).drop(columns="start")


def measure_open_bandit() -> dict[str, object]:
    """Rank the impressions of an hour by clicks: train on five days, evaluate on two."""
    frame = open_bandit()
    report: dict[str, object] = {"rows": len(frame), "clicks": int(frame.click.sum())}
    values = {}
    for name, history in (("without", None), ("with", BANDIT)):
        log = logs.scan(
            frame, query="session", label="click", numeric=["affinity", "item_feature"],
            time="ts", history=history,
        )  # fmt: skip
        parts = {part: lists.load() for part, lists in log.split("time:5/7,2/7").items()}
        test = parts["valid"]
        # Rates of half a percent vary far less than the other columns.
        ranker = RankSVM(scale="standard").fit(parts["train"])
        scores = score_dataset(ranker.to_model(), test)
        has_click = np.maximum.reduceat(test.y, test.queries.starts[:-1]) > 0
        values[name] = evaluate("auc", test.y, scores, test.qid, per_query=True)[has_click]
    values["difference"] = values["with"] - values["without"]
    report |= {"test_lists": int(has_click.sum()), "test_clicks": int(test.y.sum())}
    for name, aucs in values.items():
        half_width = 1.96 * aucs.std(ddof=1) / len(aucs) ** 0.5
        report[f"auc {name}"] = {
            "mean": round(float(aucs.mean()), 3), "half_width_95": round(float(half_width), 3),
        }  # fmt: skip
    return report


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("speed", "memory", "quality", "bandit")
    parser.add_argument("--part", nargs="+", default=parts, choices=parts)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lists", type=int, default=6000)
    parser.add_argument("--logs", type=int, default=5)
    options = parser.parse_args(argv)
    if "speed" in options.part:
        add("history", "offline", measure_speed(options.rows, options.repeats))
    if "memory" in options.part:
        add("history", "memory", measure_memory())
    if "quality" in options.part:
        add("history", "quality", measure_quality(options.lists, options.logs))
    if "bandit" in options.part:
        add("history", "open_bandit", measure_open_bandit())


def smoke():
    """Run the smallest size, as the tests do."""
    main([*_SIMULATED, "--rows", "5000", "--repeats", "1", "--lists", "100", "--logs", "1"])


def quick():
    """Run a small size."""
    main([*_SIMULATED, "--rows", "200000", "--lists", "1000", "--logs", "1"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
