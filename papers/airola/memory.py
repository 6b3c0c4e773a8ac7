"""Peak memory of training against the number of rows."""

from __future__ import annotations

import numpy as np
from benchmarks.common.memory import peak_and_data
from benchmarks.common.timing import median_and_range, spread

from papers.airola.utilities import LAM
from papers.runs import table

TITLE = "Memory against rows"
SMOKE = {"sizes": [1_000], "repetitions": 1}
QUICK = {"sizes": [8_000, 16_000], "repetitions": 1}
FULL = {"sizes": [8_000, 32_000, 128_000, 512_000], "repetitions": 1}

KINDS = {"hinge": {"l2": 2 * LAM}, "squared hinge": {"l2": 2 * LAM, "loss": "squared_hinge"}}


def measure(sizes, repetitions):
    results = []
    for m in sizes:
        entry = {"rows": m}
        for name, parameters in KINDS.items():
            runs = [peak_and_data("RankSVM", parameters, m) for _ in range(repetitions)]
            entry["data_mib"] = runs[0][1]
            entry[name] = spread(peak for peak, _ in runs)
        results.append(entry)
        print(entry, flush=True)
    return {"seeds": [20260101], "repetitions": repetitions, "sizes": results}


def law(entries, name):
    """Return slope and constant of peak = constant + slope * data."""
    data, peak = [e["data_mib"] for e in entries], [e[name]["median"] for e in entries]
    return np.polyfit(data, peak, 1).tolist()


def markdown(results):
    entries = results["sizes"]
    rows = [
        [
            f"{e['rows']:,}",
            f"{e['data_mib']:.0f}",
            *(median_and_range(e[name], ".0f") for name in KINDS),
        ]
        for e in entries
    ]
    return "\n\n".join([
        ("MiB of a process above the imported interpreter, the data (matrix, labels, queries) "
        "included."),
        table(("rows", "data", *KINDS), rows),
        outcome(entries),
    ])  # fmt: skip


def outcome(entries):
    """Whether memory grows as the data does."""
    laws = {name: law(entries, name) for name in KINDS}
    if len(entries) < 3 or min(slope for slope, _ in laws.values()) < 0.5:
        return "At these sizes compiled code, loaded by the first fit, outweighs the data."
    fits = "; ".join(
        f"{name}: {slope:.2f} times the data plus {constant:.0f} MiB"
        for name, (slope, constant) in laws.items()
    )
    return (
        f"Linear in the rows, as the paper says: {fits}. The constant is compiled code loaded by "
        "the first fit, and vectors as long as the features."
    )


def draw(results):
    from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels

    figure, (ax,) = panels(width=5.4)
    x = [e["rows"] for e in results["sizes"]]
    # The second is dashed, because the two are often the same.
    for colour, name, style in zip(COLOURS, KINDS, ("-", "--"), strict=False):
        line(ax, x, [e[name] for e in results["sizes"]], name, colour, style=style)
    line(ax, x, [e["data_mib"] for e in results["sizes"]], "data", "black", style=":")
    axis(ax, "rows", "MiB at the peak", logx=True, logy=True)
    label_lines(ax)
    return figure
