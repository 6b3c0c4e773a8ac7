"""Edits by hand: CPU time of an edit beside that of the fit that it continues.

Rows have MSLR's shape. Each edit fixes three bins of the column with the largest effect and one bin
of the next one. ``seconds`` are CPU seconds on one thread, ``share`` is the edit's part of the fit.

    python -m benchmarks edit --full
"""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.common.machine import save
from benchmarks.common.timing import cpu_seconds
from benchmarks.common.workloads import mslr_like
from rankine import AdditiveRanker, Dataset

SETTINGS = {"default": {}, "given": {"smooth": 10.0}}


def entries(ranker):
    """Return the entries to fix in a fitted ranker."""
    ends = np.cumsum([0, *ranker.bins_.n_cells])
    spans = zip(ends[:-1], ends[1:], strict=True)
    ranges = [np.ptp(ranker.coef_[first:last]) for first, last in spans]
    largest, next_largest = np.argsort(ranges)[:-3:-1].tolist()
    cuts, next_cuts = ranker.bins_.cuts[largest], ranker.bins_.cuts[next_largest]
    return {
        largest: {(cuts[2], cuts[5]): 0.1},
        next_largest: {(next_cuts[1], next_cuts[1]): 0.0},
    }


def measure(data, options):
    """Fit, edit the fit and edit its model; return their CPU seconds."""
    ranker = AdditiveRanker(n_threads=1, random_state=0, **options)
    fit_seconds, _ = cpu_seconds(lambda: ranker.fit(data))
    model, fixed = ranker.to_model(), entries(ranker)
    edit_seconds, _ = cpu_seconds(lambda: ranker.edit(fixed, data))
    again = AdditiveRanker(n_threads=1, random_state=0, **options)
    model_seconds, _ = cpu_seconds(lambda: again.edit(fixed, data, coef_init=model))
    gap = ranker.solution_.certificate["relative_gap"]
    return {"fit": fit_seconds, "edit": edit_seconds, "model": model_seconds, "gap": gap}


def run(sizes):
    small = Dataset.from_arrays(*mslr_like(20))
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ranges end at cuts, and few lists may not converge
        for options in SETTINGS.values():
            measure(small, options)  # compiles
        for n_lists, repetitions in sizes.items():
            data = Dataset.from_arrays(*mslr_like(n_lists))
            for name, options in SETTINGS.items():
                runs = [measure(data, options) for _ in range(repetitions)]
                seconds = {
                    key: float(np.median([each[key] for each in runs]))
                    for key in ("fit", "edit", "model")
                }
                shares = {key: seconds[key] / seconds["fit"] for key in ("edit", "model")}
                gap = max(each["gap"] for each in runs)
                result = {"rows": data.n_rows, "strengths": name, "seconds": seconds}
                results.append({**result, "share": shares, "gap": gap})
                print(results[-1], flush=True)
    save("edit", {"sizes": results})


def smoke():
    """Run the smallest size, as the tests do."""
    run({20: 1})


def quick():
    """Run one size."""
    run({300: 1})


def full():
    """Run two sizes."""
    run({600: 1, 1200: 1})
