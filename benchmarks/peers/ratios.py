"""Ratios of other libraries' figures to rankine's, from the stored results of one run.

What no other library does the same way is a row of rankine alone.
"""

from __future__ import annotations

import json

from papers.runs import table

from benchmarks.common.machine import results_path
from benchmarks.instead.comparison import ADDITIVE


def ratios(since):
    """Return rows of task, peer, both figures and their ratio, and the results without figures.

    A ratio above 1 means that rankine is faster. Results stored before ``since`` (seconds since the
    epoch) are of another run and do not count.
    """
    rows, unmeasured = [], []
    for name, read in READERS.items():
        path = results_path(name)
        found = []
        if path.is_file() and path.stat().st_mtime >= since:
            found = [row for row in read(json.loads(path.read_text(encoding="utf-8"))) if row]
        rows += found
        if not found:
            unmeasured.append(name)
    return rows, unmeasured


def row(task, peer, ours, theirs, *, more_is_faster=False):
    """Return one comparison, or None where a figure is missing."""
    if not ours or not theirs:
        return None
    ratio = ours / theirs if more_is_faster else theirs / ours
    return {"task": task, "peer": peer, "ours": ours, "theirs": theirs, "ratio": ratio}


def alone(task, ours):
    """Return a figure of rankine that nothing is compared with."""
    return {"task": task, "peer": "", "ours": ours}


def of_file(found):
    """Megabytes of text a second."""
    for name, file in found["files"].items():
        rates = file["megabytes_per_cpu_second"]
        for peer in rates:
            if not peer.startswith("rankine"):
                kind = name.partition(".")[0]
                yield row(f"read LETOR text, {kind} rows, MB/s", peer, rates["rankine"],
                          rates[peer], more_is_faster=True)  # fmt: skip


def of_spd(found):
    """One stochastic step."""
    for name, one in found.get("sofia", {}).items():
        yield row(f"SPD step, {name}, ns", "sofia-ml", one.get("ours_ns"), one.get("theirs_ns"))


def of_ranksvm(found):
    """The exact optimum of the squared hinge."""
    for size in found["sizes"]:
        yield row(f"RankSVM, squared hinge, {size['rows']:,} rows, s", "liblinear-ranksvm",
                  size.get("squared_s"), size.get("peer_s"))  # fmt: skip


def of_domination(found):
    """The optimum with L1, to a certified gap."""
    yield alone(f"domination, {found['rows']:,} rows, gap 1e-3, s", found["seconds"])


def of_elastic(found):
    """One pass over lists with one purchase: from memory, from text and from Parquet."""
    if "speed" in found:
        yield alone(f"one pass from memory, {found['speed']['rows']:,} rows, s",
                    min(found["speed"]["cpu_s"]))  # fmt: skip
    for file in found.get("stream", ()):
        task = f"one pass from {file['format'][1:]}, {file['rows']:,} rows, reading included, s"
        yield alone(task, file["learn_wall_cpu_s"][1])


def of_least_squares(found):
    """Conjugate gradients."""
    yield row(f"least squares, {found['rows']:,} rows, s", "RLScore", found["solvers"]["cg"]["s"],
              found.get("rlscore_s"))  # fmt: skip


def of_learners(task, ours):
    """Return a reader of a comparison: training time against one of our rankers."""

    def read(found):
        learners = found["learners"]
        for peer, figures in learners.items():
            if ours in learners and not peer.startswith("rankine"):
                seconds = (each["cpu_seconds"]["median"] for each in (learners[ours], figures))
                yield row(f"{task}, CPU s", peer, *seconds)

    return read


def of_scoring(found):
    """A list of 100 candidates."""
    for size, kinds in found["microseconds_per_list"].items():
        for kind, times in kinds.items():
            for peer, time in times.items():
                if "rankine" in times and not peer.startswith("rankine"):
                    yield row(f"score {size}, {kind}, us", peer, times["rankine"], time)


def of_metrics(found):
    """NDCG of many lists."""
    for peer, time in found["cpu_ms"].items():
        if peer != "rankine":
            yield row(f"NDCG of {found['lists']} rows, ms", peer, found["cpu_ms"]["rankine"], time)


def of_additive(found):
    """Curves and pairs beside boosted trees."""
    for part, contest in found.items():
        systems = contest.get("systems", {}) if isinstance(contest, dict) else {}
        for peer in ("lightgbm", "xgboost"):
            if peer in systems:
                yield row(f"additive, {part}, CPU s", peer, systems["additive"]["seconds"],
                          systems[peer]["seconds"])  # fmt: skip


def of_real_sets(found):
    """The additive ranker beside trees and EBM, by set: training, memory, latency, quality."""
    measured = {"cpu_seconds": "CPU s", "peak_mb": "peak MB", "us_per_candidate": "us a candidate"}
    for name, one in found["sets"].items():
        learners = one["learners"]
        for peer, figures in learners.items():
            if "against_additive" not in figures:
                continue
            for key, unit in measured.items():
                medians = (learners[each][key]["median"] for each in (ADDITIVE, peer))
                yield row(f"additive, {name}, {unit}", peer, *medians)
            yield {
                "task": f"additive, {name}, NDCG@10 on test",
                "peer": peer,
                "ours": learners[ADDITIVE]["test"],
                "theirs": figures["test"],
                "peer_minus_ours": figures["against_additive"],
            }


def of_history(found):
    """Features from history, computed offline."""
    rates = found.get("offline", {})
    if "pandas" in rates:
        key = "rows_per_processor_second"
        yield row("history features, rows/s", "pandas", rates["rankine"][key], rates["pandas"][key],
                  more_is_faster=True)  # fmt: skip


def of_serving(found):
    """Requests a second by number of clients."""
    for clients, rates in found["requests_per_second"].items():
        yield row(f"serve 100 items, {clients} clients, requests/s", "FastAPI and LightGBM",
                  rates["rankine"], rates.get("peer"), more_is_faster=True)  # fmt: skip


def of_airola(found):
    """RankSVM beside the programs a user may have."""
    for size in found["sizes"]:
        methods = size["methods"]
        for peer, figures in methods.items():
            if not peer.startswith("rankine") and "seconds" in figures:
                times = (m["seconds"]["median"] for m in
                         (methods["rankine, hinge"], figures))  # fmt: skip
                yield row(f"RankSVM, hinge, {size['rows']:,} rows, s", peer, *times)
        dlib = size.get("two_grades", {}).get("dlib", {})
        if "seconds" in dlib:
            ours = size["two_grades"]["rankine, hinge"]["seconds"]["median"]
            yield row(f"RankSVM, hinge, two grades, {size['rows']:,} rows, s", "dlib", ours,
                      dlib["seconds"]["median"])  # fmt: skip


READERS = {
    "parsing": of_file,
    "spd": of_spd,
    "ranksvm": of_ranksvm,
    "least_squares": of_least_squares,
    "domination": of_domination,
    "elastic": of_elastic,
    "instead.click_log": of_learners("one pass over purchase lists", "rankine ElasticRank"),
    "scoring": of_scoring,
    "metrics": of_metrics,
    "additive": of_additive,
    "instead.real_sets": of_real_sets,
    "history": of_history,
    "serving_peer": of_serving,
    "airola.peers": of_airola,
}


def shown(rows):
    """Return the table of ratios."""
    cells = []
    for one in rows:
        theirs, compared = "", ""
        if "theirs" in one:
            theirs = f"{one['theirs']:.4g}"
        if "ratio" in one:
            compared = f"{one['ratio']:.3g}"
        elif "peer_minus_ours" in one:
            gap = one["peer_minus_ours"]
            compared = f"{gap['mean']:+.4f} [{gap['low']:+.4f}, {gap['high']:+.4f}]"
        cells.append([one["task"], one["peer"], f"{one['ours']:.4g}", theirs, compared])
    header = ("task", "peer", "rankine", "peer's figure", "times faster; difference in quality")
    return table(header, cells, left=2)
