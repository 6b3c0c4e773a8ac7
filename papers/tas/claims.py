"""What Tas claims, and what was measured."""

from __future__ import annotations

import numpy as np
from benchmarks.common.timing import exponent

from papers.claims import MARGIN, Claim, Size, at_least, at_most
from papers.runs import read
from papers.tas.gamma import GDM
from papers.tas.spectrum import NAMES, at_step

#: "close to 800 000 examples", and its features.
ROWS = 800_000
#: A fall of the error that is not counted: a pair in a thousand.
NOISE = 0.001


def claims():
    large = read("tas.large")
    result, size = sets(read("tas.gamma"), large), Size("rows", large["parameters"]["rows"], ROWS)
    return [
        ten_iterations(read("tas.spectrum")),
        stable(read("tas.stability")),
        error_against_gamma(result, size),
        same_accuracy(result, size),
        faster(result, size),
        no_difference(result, size),
        unaffected(result, size),
        stochastic(large, size),
    ]


def sets(gamma, large):
    """Set -> gammas, condition, and method -> field -> one value a gamma; the largest first."""
    fields = ("iterations", "seconds", "test_error", "converged")
    k1 = large["kappa_1"]
    data_sets = {
        f"{large['collection']}, {large['parameters']['rows']:,} rows": {
            "gammas": large["gammas"],
            "condition": [(k1 + g) / g for g in large["gammas"]],
            **{m: {f: np.array([run[f] for run in runs]) for f in fields}
               for m, runs in large["methods"].items()},
        }
    }  # fmt: skip
    for source, topic in gamma["topics"].items():
        data_sets[f"{source}, {gamma['parameters']['rows']:,} rows"] = {
            "gammas": topic["gammas"],
            "condition": [cell["median"] for cell in topic["condition"]],
            **{m: {f: np.array([cell["low" if f == "converged" else "median"] for cell in data[f]])
                   for f in fields} for m, data in topic["methods"].items()},
        }  # fmt: skip
    return data_sets


def ten_iterations(results):
    off = {}
    for source, errors in results["topics"].items():
        values = [at_step(errors["curves"]["power"][kind], 10)["median"] for kind in NAMES]
        off[source] = max(abs(value - 1) for value in values)
    return Claim(
        "Ten power iterations estimate the extreme eigenvalues well enough.",
        "Empirically, sufficiently accurate values are obtained in a very short time (10 "
        "iterations)",
        "section 2.1, figures 1 and 2",
        " and ".join(off),
        (Size("rows", results["parameters"]["rows"], ROWS),),
        "ten power iterations are off by "
        + " and ".join(f"{100 * value:.0f} %" for value in off.values())
        + "; the paper plots curves that have settled",
        tuple(at_most(f"{source}: off at step 10", v, 0.1, ".2f") for source, v in off.items()),
    )


def stable(results):
    measured, theory = (np.array(results[k]) for k in ("measured_rate", "predicted_rate"))
    far = int((((measured < 1) != (theory < 1)) & (np.abs(theory - 1) >= 0.02)).sum())
    return Claim(
        "Heavy ball is stable where the eigenvalues of its iteration are below one.",
        "stable if the magnitudes of eigenvalues of the matrix A_i are smaller than one",
        "section 2.1",
        f"{measured.size} pairs of step and momentum on one system",
        (),
        f"{far} cells contradict it; the paper proves it elsewhere",
        (at_most("cells further than 0.02 from a rate of 1 that contradict", far, 0, "d"),),
    )


def error_against_gamma(found, size):
    curves = {name: each["CG"]["test_error"] for name, each in found.items()}
    first = next(iter(curves.values()))
    return Claim(
        "The test error grows with gamma.",
        "as gamma increases, the model complexity decreases and this leads to an increase in the "
        "ranking error of the test set",
        "section 3",
        f"{next(iter(found))}; and Reuters-21578",
        (size,),
        f"{first[0]:.3f} at the smallest gamma, {min(first):.3f} at the best, {first[-1]:.3f} at "
        "the largest; the paper has it rise throughout",
        tuple(
            check
            for name, curve in curves.items()
            for check in (
                at_most(f"{name}: largest fall of the error from one gamma to the next",
                        float(np.max(-np.diff(curve), initial=0.0)), NOISE, ".4f"),
                at_least(f"{name}: rise from the best gamma to the largest",
                         curve[-1] - min(curve), NOISE, ".4f"),
            )
        ),
    )  # fmt: skip


def same_accuracy(found, size):
    apart = {}
    for name, each in found.items():
        gaps = [0.0]
        for method in GDM:
            both = (each["eGDM"]["converged"] == 1) & (each[method]["converged"] == 1)
            gaps += np.abs(each["eGDM"]["test_error"] - each[method]["test_error"])[both].tolist()
        apart[name] = max(gaps)
    return Claim(
        "eGDM and GDM reach the same test error.",
        "for a given gamma, both of the algorithms achieved the same ranking accuracy on the test "
        "set",
        "section 3",
        "the same, where both converge; GDM with momentum 0, 0.5 and 0.9",
        (size,),
        f"test errors at most {max(apart.values()):.4f} apart",
        tuple(at_most(f"{s}: largest difference", v, NOISE, ".4f") for s, v in apart.items()),
    )


def fastest(each, field):
    """Return the smallest value of GDM over its momenta, by gamma."""
    return np.min([each[method][field] for method in GDM], axis=0)


def faster(found, size):
    ratios = {name: fastest(e, "seconds") / e["eGDM"]["seconds"] for name, e in found.items()}
    first = next(iter(ratios.values()))
    return Claim(
        "eGDM is faster than GDM at low and moderate gamma.",
        "eGDM seems to perform much better than GDM, especially at low and moderate "
        "regularization levels",
        "section 3",
        "the same; the estimate of the eigenvalues included; GDM at its fastest momentum of 0, 0.5 "
        "and 0.9",
        (size,),
        f"GDM takes {first.min():.2g} to {first.max():.2g} times eGDM's time, by gamma; the paper "
        "gives no figure",
        tuple(
            at_least(f"{name}: GDM's time over eGDM's, median at {level} gammas",
                     float(np.median(part)), 1.0, ".2f")
            for name, values in ratios.items()
            for level, part in zip(("low", "moderate"), np.array_split(values, 3), strict=False)
        ),
    )  # fmt: skip


def no_difference(found, size):
    ends = {n: {m: e[m]["iterations"][-1] for m in ("eGDM", *GDM)} for n, e in found.items()}
    first = next(iter(ends.values()))
    return Claim(
        "At very high gamma eGDM and GDM are equally fast.",
        "There is no statistically significant difference between the algorithms when the "
        "regularization is very high",
        "section 3",
        "the same, at the largest gamma; the paper does not state GDM's momentum",
        (size,),
        "iterations: " + ", ".join(f"{name} {count:.0f}" for name, count in first.items()),
        tuple(
            at_most(f"{name}: iterations of {method} over eGDM's",
                    counts[method] / max(counts["eGDM"], 1), 2.0, ".1f")
            for name, counts in ends.items()
            for method in GDM
        ),
    )  # fmt: skip


def unaffected(found, size):
    slopes, late = {}, 0
    for name, each in found.items():
        iterations_done = each["eGDM"]["converged"] == 1
        condition = np.array(each["condition"])
        converged = iterations_done & (condition > 10)
        slopes[name] = exponent(condition[converged], each["eGDM"]["iterations"][converged])
        late += int((~iterations_done).sum())
    return Claim(
        "eGDM's iterations do not depend on the condition number.",
        "eGDM is unaffected by the difficulty of the problem and converges to the solution in a "
        "very short time",
        "section 3",
        "the same",
        (size,),
        f"iterations grow as condition^{min(slopes.values()):.2f} to "
        f"{max(slopes.values()):.2f} (theory: 0.5); {late} of "
        f"{sum(len(each['gammas']) for each in found.values())} fits do not converge in time",
        (
            *(at_most(f"{s}: exponent in the condition number", v, 0.1, ".2f")
              for s, v in slopes.items()),
            at_most("fits that do not converge", late, 0, "d"),
        ),
    )  # fmt: skip


def stochastic(large, size):
    apart = [
        sgd_result["test_error"] - exact["test_error"]
        for sgd_result, exact in zip(large["sgd"], large["methods"]["CG"], strict=True)
    ]
    return Claim(
        "eGDM can be extended to stochastic steps.",
        "eGDM can be extended to work in the case of a stochastic quadratic loss",
        "section 4, left to the future",
        f"batches of {large['parameters']['batch']} rows inside the one query, fixed momentum",
        (size,),
        f"test error {max(apart):+.4f} against the exact solution's at worst, after "
        f"{large['parameters']['n_passes']} passes",
        (at_most("worst test error less the exact one's", max(apart), MARGIN, ".4f"),),
    )
