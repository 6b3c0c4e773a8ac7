"""Section 3.1: pairs drawn per second by every sampler, with and without an index."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from benchmarks.common.timing import cpu_seconds, median_and_range, repeated, spread
from benchmarks.common.workloads import large_text, letor_like

from papers.runs import table
from rankine import Dataset
from rankine.kernels.compile import jit
from rankine.kernels.random import random_bits
from rankine.samplers.draw import EXACT, StreamPairs, build_pair_index, draw_pair, pair_sampler

TITLE = "Section 3.1: samples per second"
SMOKE = {"rows": 2_000, "lists": 5, "draws": 2_000, "repetitions": 1}
QUICK = {"rows": 20_000, "lists": 20, "draws": 200_000, "repetitions": 3}
FULL = {"rows": 781_265, "lists": 75, "draws": 2_000_000, "repetitions": 5}

SEED = 1
#: The sampler of streams: each query owns a range of steps.
STREAM = "stream, query"
SAMPLERS = {
    "query": {"sampling": "query"},
    "uniform": {"sampling": "uniform"},
    "indexed (the paper's)": {"sampling": "indexed"},
    "rejection (no index)": {"sampling": "rejection"},
    "query, ties": {"sampling": "query", "ties": True},
    "rejection, ties": {"sampling": "rejection", "ties": True},
    STREAM: {"sampling": "query"},
}


@jit
def _draw(sampler: Any, seed: Any, draws: int) -> int:
    """Draw pairs and do nothing with them; the sum keeps the loop from being dropped."""
    total = 0
    for k in range(draws):
        a, b, kind = draw_pair(sampler, random_bits(seed, k), k)
        if kind < 0.0:
            return -1
        total += a + b
    return total


def tasks(rows, lists):
    """Generate a rare topic, real-valued labels, and lists of 1,000 with three grades."""
    text = large_text(rows)
    one = np.ones(rows, dtype=np.int64)
    return {
        f"rare topic, {rows:,} rows ({text.name})": Dataset(text.X, text.binary, one),
        f"real-valued, {rows:,} rows ({text.name})": Dataset(text.X, text.utility, one),
        f"{lists} lists of 1,000": Dataset(*letor_like(lists)),
    }


def sampler_of(name, parameters, data, draws):
    """Build the sampler over a copy of the data, so that its index is built each time."""
    fresh = Dataset(data.X, data.y, data.qid)
    weight = np.ones(fresh.n_queries)
    if name != STREAM:
        return pair_sampler(fresh, weight, **parameters)
    index = build_pair_index(fresh, weight)
    lists = len(index.query_starts)
    return StreamPairs(index, draws * np.arange(1, lists + 1) // lists, EXACT)


def measure(rows, lists, draws, repetitions):
    results = {}
    for task, data in tasks(rows, lists).items():
        results[task] = {}
        for name, parameters in SAMPLERS.items():
            count = draws if "rejection" not in name else max(draws // 20, 1000)
            build = partial(sampler_of, name, parameters, data, count)
            indexing = spread(cpu_seconds(build)[0] for _ in range(3))
            sampler = build()
            drawing, total = repeated(
                lambda s=sampler, c=count: _draw(s, np.uint64(SEED), c), repetitions
            )
            if total < 0:
                raise RuntimeError(f"{name} found no pair on {task}")
            results[task][name] = {
                "index_seconds": indexing,
                "nanoseconds": {k: 1e9 * v / count for k, v in drawing.items() if k != "n"},
            }
    return {"seeds": [SEED], "repetitions": repetitions, "tasks": results}


def markdown(results):
    parts = ["Draws alone, without a step; index seconds include sorting labels within queries."]
    for task, samplers in results["tasks"].items():
        quickest = min(task_result["nanoseconds"]["median"] for task_result in samplers.values())
        rows = [
            [
                name,
                f"{1e3 / task_result['nanoseconds']['median']:.2f}",
                median_and_range(task_result["nanoseconds"], ".0f"),
                f"{task_result['nanoseconds']['median'] / quickest:.1f}",
                f"{task_result['index_seconds']['median']:.4f}",
            ]
            for name, task_result in samplers.items()
        ]
        header = ("sampler", "million pairs a second", "ns a pair", "over the fastest", "index s")
        parts += [f"**{task}**", table(header, rows)]
    parts.append(
        "The paper's remark holds: without an index two random rows are surprisingly often a pair "
        "where labels are many, and far too rarely where positives are few or lists are many."
    )
    return "\n\n".join(parts)
