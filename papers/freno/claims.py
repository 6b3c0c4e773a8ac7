"""What Freno et al. claim, and what was measured."""

from __future__ import annotations

import numpy as np

from papers.claims import Check, Claim, Size, ahead, at_most, interval_over, margin_of, no_worse
from papers.freno.acquisition import difference
from papers.freno.against_ranksvm import CUTS, MEAN
from papers.freno.figure3 import PASSES, near_best, roughness
from papers.freno.methods import TRAINED
from papers.freno.table1 import COLUMNS, PAPER, interval
from papers.freno.table2 import PAPER as PAPER_TIMES
from papers.freno.table2 import SIZES
from papers.runs import read

#: "The sample contains millions of impressions".
IMPRESSIONS = 2_000_000
#: Items in a list of the generated log, on average.
ITEMS = 10
OHSUMED = "ohsumed_letor3_querylevelnorm"
LOG = "a generated purchase log"
#: Optimisers of the paper's ElasticRank, and the two that it prefers to FOBOS.
ELASTIC, PREFERRED = ("PSGD", "FOBOS", "RDA"), ("RDA", "PSGD")
#: Logs that an interval over logs needs.
LEAST_LOGS = 3
#: Of the rows that are scored.
FORMS = ("the model's columns", "whole rows")
#: Below this exponent, time does not grow linearly with the weights.
SUBLINEAR = 0.9


def claims():
    table1, figure3, deltas = (read(f"freno.{name}") for name in ("table1", "figure3", "deltas"))
    logs, size = figure3["logs"], impressions(figure3)
    paired = read("freno.against_ranksvm")["tasks"]
    return [
        competitive(paired),
        highest(paired[OHSUMED]),
        Claim("ElasticRank has the highest NDCG@1 on TD2003.",
              "on TD2003 (Figure 2a) it performs best in NDCG@1", "section 7",
              why="TD2003 is not at hand; a folder of that name is run"),
        Claim("ElasticRank is ahead of ListNet and RankSVM in NDCG@1 and 2 on TD2004.",
              "for NDCG@1-2 ElasticRank is still outperforming ListNet and RankSVM",
              "section 7, figure 2b, TD2004", why="TD2004 is not at hand; nor are its baselines"),
        thompson(read("freno.acquisition")),
        order("Listwise learning beats pairwise learning.",
              [(method, "RankSVM") for method in ELASTIC], table1, impressions(table1)),
        order("Pairwise learning beats pointwise learning.", [("RankSVM", "LR")], table1,
              impressions(table1)),
        close(table1, impressions(table1)),
        smooth(logs, size),
        fewer_weights(logs, size),
        without_l2(logs, size),
        second_pass(logs, size),
        one_pass(logs, size),
        recall_delta(deltas, impressions(deltas)),
        latency(read("freno.table2")),
    ]  # fmt: skip


def impressions(results):
    """Return the size of the training log."""
    return Size("impressions", results["parameters"]["lists"] * TRAINED * ITEMS, IMPRESSIONS)


def competitive(tasks):
    means = {name: task["ndcg"][MEAN] for name, task in tasks.items()}
    return Claim(
        "One pass ranks as well as methods that iterate.",
        "ElasticRank is competitive w.r.t. state-of-the-art learning-to-rank models, while only "
        "performing a single pass on the data",
        "section 7, figure 2",
        "OHSUMED and MQ2008; mean of NDCG@1 to 5, RDA minus RankSVM",
        (Size("of the paper's collections", 1, 3),),
        ", ".join(f"{found['paired']['difference']:+.4f} ({n[:7]})" for n, found in means.items())
        + "; the paper's is first or among the first",
        tuple(
            no_worse(f"difference on {name}", found["paired"]["interval"],
                     -margin_of(found["ranksvm"]), "page's margin")
            for name, found in means.items()
        ),
        own=True,
    )  # fmt: skip


def highest(task):
    cuts = {str(k): task["ndcg"][str(k)]["paired"] for k in CUTS}
    return Claim(
        "ElasticRank has the highest NDCG@1 to 5 on OHSUMED.",
        "On OHSUMED (Figure 2c), ElasticRank is achieving the highest performance (for NDCG@1-5)",
        "section 7",
        f"OHSUMED, {task['queries']} test queries; RDA minus RankSVM",
        (),
        ", ".join(f"{found['difference']:+.3f}" for found in cuts.values())
        + f" by k; {task['queries']} queries are too few to say which of two good methods is "
        "higher",
        tuple(ahead(f"NDCG@{k}", found["interval"]) for k, found in cuts.items()),
        own=True,
    )


def thompson(results):
    checks, sentences = [], []
    for sampler, name in (("ei", "expected improvement"), ("random", "random search")):
        mean, bounds = difference(results, sampler, "vali")
        sentences.append(f"{mean:+.4f} to {name}")
        checks.append(ahead(f"Thompson sampling's best validation NDCG@10 over {name}'s", bounds))
    return Claim(
        "Thompson sampling tunes better than other acquisition functions.",
        "we found that Thompson sampling worked best at trading off exploration and exploitation",
        "section 6",
        f"{len(results['problems'])} tuning problems on OHSUMED and MQ2008",
        (Size("evaluations", results["parameters"]["evaluations"], 30),),
        ", ".join(sentences) + "; the paper gives no figure",
        tuple(checks),
    )


def order(says, pairs, results, size):
    """Return a claim that the first of each pair is ahead, where the paper has it ahead."""
    checks, ahead_in = [], []
    for a, b in pairs:
        columns = [k for k in range(len(COLUMNS)) if PAPER[a][k] > PAPER[b][k]]
        found = [
            ahead(f"{COLUMNS[k]}, {a} minus {b}, points", interval(results, a, b, k))
            for k in columns
        ]
        ahead_in.append(f"{a} over {b} in {sum(c.held is True for c in found)} of {len(found)}")
        checks += found
    return Claim(
        says,
        "ElasticRank (listwise) is more accurate than RankSVM (pairwise), which in turn "
        "outperforms LR (pointwise)",
        "section 8, table 1",
        f"{len(results['logs'])} generated purchase logs; the columns in which the paper has the "
        "first ahead",
        (size,),
        "proven better: " + ", ".join(ahead_in) + " columns",
        tuple(checks),
    )


def penalised(log):
    """Return whether all three variants chose a penalty, without which they are one model."""
    settings = [log["methods"][name]["setting"] for name in ELASTIC]
    return all(setting["l1"] > 0 or setting.get("theta", 0) > 0 for setting in settings)


def close(results, size):
    says = "The three variants of ElasticRank are close to one another."
    quote = "the three variants of ElasticRank are all pretty close to one another"
    logs = [log["methods"] for log in results["logs"] if penalised(log)]
    if len(logs) < LEAST_LOGS:
        return Claim(
            says, quote, "section 8, table 1",
            why=f"validation chose a penalty for all three in {len(logs)} of "
            f"{len(results['logs'])} logs; without one they are the same model",
        )  # fmt: skip
    lead = PAPER["PSGD"][0] - PAPER["RankSVM"][0]
    pairs = (("PSGD", "FOBOS"), ("PSGD", "RDA"), ("FOBOS", "RDA"))
    gaps = {
        f"{a} minus {b}": interval_over(
            log[a]["over_random"][0] - log[b]["over_random"][0] for log in logs
        )
        for a, b in pairs
    }
    checks = [
        Check(f"R@1, {name}, points: within ±{lead:.1f}", f"[{low:+.1f}, {high:+.1f}]",
              _within(low, high, lead), "paper: PSGD's lead over RankSVM")
        for name, (low, high) in gaps.items()
    ]  # fmt: skip
    return Claim(
        says, quote, "section 8, table 1", f"{LOG}; {len(logs)} logs with penalties", (size,),
        "R@1 over random: " + ", ".join(c.found for c in checks) + " points apart (paper 0.8)",
        tuple(checks),
    )  # fmt: skip


def _within(low, high, bar):
    """Return whether an interval is within ±bar: None if that is undecided."""
    if -bar <= low and high <= bar:
        return True
    return False if low > bar or high < -bar else None


def rough(logs, name):
    """Return the falls of R@1 along a curve of one pass, by log, in per cent of the rise."""
    return np.array([roughness(log[name][PASSES[0]], "recall@1") for log in logs])


def peaks(logs, name, passes):
    """Return the best R@1 of a curve by log."""
    return np.array([max(p["recall@1"] for p in log[name][passes]) for log in logs])


def smooth(logs, size):
    falls = {name: rough(logs, name) for name in ELASTIC}
    return Claim(
        "RDA and PSGD trade sparsity for quality more reliably than FOBOS.",
        "RDA and PSGD are more reliable than FOBOS at trading-off model sparsity for predictive "
        "performance",
        "section 8, figure 3",
        f"{len(logs)} generated purchase logs; falls of R@1 along the curve",
        (size,),
        "falls in per cent of the rise: "
        + ", ".join(f"{n} {v.mean():.1f}" for n, v in falls.items()),
        tuple(ahead(f"FOBOS's falls minus {n}'s", interval_over(falls["FOBOS"] - falls[n]))
              for n in PREFERRED),
    )  # fmt: skip


def fewer_weights(logs, size):
    need = {
        name: np.array([
            near_best(log[name][PASSES[0]], peak, "recall@1")
            for log, peak in zip(logs, peaks(logs, name, PASSES[0]), strict=True)
        ])
        for name in ELASTIC
    }  # fmt: skip
    return Claim(
        "RDA and PSGD need fewer weights than FOBOS for nearly their best recall.",
        "ElasticRank based on RDA or PSGD converges faster to the high values regime as a "
        "function of model size",
        "section 8, figure 3",
        f"{len(logs)} generated purchase logs",
        (size,),
        "weights for 99 % of the best R@1: "
        + ", ".join(f"{n} {np.median(v):,.0f}" for n, v in need.items()),
        tuple(ahead(f"log10 of FOBOS's weights over {n}'s",
                    interval_over(np.log10(need["FOBOS"] / need[n]))) for n in PREFERRED),
    )  # fmt: skip


def without_l2(logs, size):
    says = "FOBOS without l2, the method of [31], is less stable and less accurate."
    quote = (
        "the version of TGD adopted in [31] [...] The resulting curves were less stable and less "
        "accurate than those reported for FOBOS"
    )
    chosen = [log for log in logs if "l2=" in log["FOBOS"]["setting"]]
    if len(chosen) < LEAST_LOGS:
        return Claim(
            says, quote, "section 8",
            why=f"that method is FOBOS without l2, and validation chose an l2 for FOBOS in "
            f"{len(chosen)} of {len(logs)} logs; elsewhere the two are one model",
        )  # fmt: skip
    plain, ours = "FOBOS, no l2", "FOBOS"
    best = [peaks(chosen, name, PASSES[0]) for name in (plain, ours)]
    falls = [rough(chosen, name) for name in (plain, ours)]
    return Claim(
        says, quote, "section 8", f"{len(chosen)} logs in which FOBOS has an l2", (size,),
        f"best R@1 {best[0].mean():.4f} without l2, {best[1].mean():.4f} with; falls "
        f"{falls[0].mean():.1f} % and {falls[1].mean():.1f} % of the rise",
        (
            ahead("falls without l2 minus those with", interval_over(falls[0] - falls[1])),
            ahead("best R@1 with l2 minus without", interval_over(best[1] - best[0])),
        ),
    )  # fmt: skip


def gains(logs, name):
    """Return the per cent by which a second pass changes the best R@1, by log."""
    first, second = (peaks(logs, name, passes) for passes in PASSES)
    return 100 * (second / first - 1)


def second_pass(logs, size):
    values = {name: gains(logs, name) for name in ELASTIC}
    return Claim(
        "A second pass helps FOBOS most.",
        "more than one pass over the training data is mostly useful for the algorithm that is "
        "slowest in converging to its highest value (i.e., FOBOS)",
        "section 8, figure 3",
        f"{len(logs)} generated purchase logs",
        (size,),
        "a second pass: " + ", ".join(f"{n} {v.mean():+.1f} %" for n, v in values.items()),
        tuple(ahead(f"FOBOS's gain minus {n}'s, per cent",
                    interval_over(values["FOBOS"] - values[n])) for n in PREFERRED),
    )  # fmt: skip


def one_pass(logs, size):
    values = {name: gains(logs, name) for name in ELASTIC}
    most = max(value.mean() for value in values.values())
    return Claim(
        "One pass keeps most of the quality of several.",
        "one-pass learning preserves most of the predictive performance",
        "abstract",
        f"{len(logs)} generated purchase logs",
        (size,),
        f"a second pass adds {most:.1f} % of R@1 at most",
        tuple(
            no_worse(f"{n}: what a second pass takes, per cent", interval_over(-value), -5.0)
            for n, value in values.items()
        ),
    )


def recall_delta(results, size):
    gaps = {
        reading: [
            np.mean([
                log[f"{solver} {cut} {reading}"]["recall@1"]
                - log[f"{solver} ndcg {reading}"]["recall@1"]
                for solver in ("rda", "fobos") for cut in ("recall@1", "recall@4")
            ])
            for log in results["logs"]
        ]
        for reading in ("model", "target")
    }  # fmt: skip
    return Claim(
        "Deltas of recall train slightly better than deltas of NDCG.",
        "similar trends with the NDCG@K-based delta function, but the results were slightly worse "
        "than for R@K-based one",
        "section 8",
        f"{len(results['logs'])} generated purchase logs; deltas at the model's ranking and at the "
        "target ranking",
        (size,),
        "R@1 with deltas of recall minus that with NDCG's: "
        + ", ".join(f"{np.mean(values):+.4f} ({reading})" for reading, values in gaps.items()),
        tuple(ahead(f"R@1, deltas at the {reading} ranking", interval_over(values))
              for reading, values in gaps.items()),
    )  # fmt: skip


def latency(results):
    smallest, _, largest = (str(size) for size in SIZES)
    small, large = results["models"][smallest], results["models"][largest]
    times = {form: large[form]["median"] / small[form]["median"] for form in small if form in FORMS}
    weights = int(largest) / int(smallest)
    paper = PAPER_TIMES[int(largest)] / PAPER_TIMES[int(smallest)]
    narrow = times["the model's columns"]
    columns = float(np.log(narrow) / np.log(weights))
    return Claim(
        "The time to score does not grow linearly with the weights.",
        "the latency due to the computation of the scoring function [...] does not grow linearly "
        "with the size of the model",
        "section 8, table 2",
        "dense rows of the model's columns, and whole sparse rows",
        (Size("candidates scored", results["parameters"]["candidates"], 5_000_000),),
        f"{narrow:.0f} and {times['whole rows']:.1f} times "
        f"the time for {weights:.0f} times the weights (paper {paper:.1f})",
        (
            at_most("exponent of time in weights, the model's columns", columns, SUBLINEAR),
            at_most("times the time, whole rows", times["whole rows"], paper, ".2f", "paper"),
        ),
    )
