"""What Tas claims, beside what was measured."""

from __future__ import annotations

import numpy as np

from benchmarks.claims import Claim, Size, at_least, at_most
from benchmarks.papers import read
from benchmarks.tas.spectrum import NAMES, at_step
from benchmarks.timing import exponent

#: "close to 800 000 examples", and its features.
ROWS = 800_000
#: A fall of the error that is not counted: a pair in a thousand.
NOISE = 0.001


def claims():
    gamma = read("tas.gamma")
    size = Size("rows", gamma["parameters"]["rows"], ROWS)
    return [
        ten_iterations(read("tas.spectrum")),
        stable(read("tas.stability")),
        error_against_gamma(gamma, size),
        same_accuracy(gamma, size),
        faster(gamma, size),
        no_difference(gamma, size),
        unaffected(gamma, size),
    ]


def ten_iterations(results):
    off = {}
    for source, found in results["topics"].items():
        values = [at_step(found["curves"]["power"][kind], 10)["median"] for kind in NAMES]
        off[source] = max(abs(value - 1) for value in values)
    return Claim(
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
        "stable if the magnitudes of eigenvalues of the matrix A_i are smaller than one",
        "section 2.1",
        f"{measured.size} pairs of step and momentum on one system",
        (),
        f"{far} cells contradict it; the paper proves it elsewhere",
        (at_most("cells further than 0.02 from a rate of 1 that contradict", far, 0, "d"),),
    )


def medians(topic, method, field):
    """One value a gamma."""
    return [cell["median"] for cell in topic["methods"][method][field]]


def converged(topic, method):
    """At which gammas every run of a method converged."""
    return [cell["low"] == 1 for cell in topic["methods"][method]["converged"]]


def error_against_gamma(gamma, size):
    curves = {source: medians(topic, "CG", "test_error") for source, topic in
              gamma["topics"].items()}  # fmt: skip
    first = next(iter(curves.values()))
    return Claim(
        "as gamma increases, the model complexity decreases and this leads to an increase in the "
        "ranking error of the test set",
        "section 3",
        " and ".join(curves),
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


def same_accuracy(gamma, size):
    apart = {}
    for source, topic in gamma["topics"].items():
        both = np.logical_and(converged(topic, "eGDM"), converged(topic, "GDM"))
        gaps = np.subtract(
            medians(topic, "eGDM", "test_error"), medians(topic, "GDM", "test_error")
        )
        apart[source] = float(np.abs(gaps[both]).max())
    return Claim(
        "for a given gamma, both of the algorithms achieved the same ranking accuracy on the test "
        "set",
        "section 3",
        "the same, where both converge",
        (size,),
        f"test errors at most {max(apart.values()):.4f} apart",
        tuple(at_most(f"{s}: largest difference", v, NOISE, ".4f") for s, v in apart.items()),
    )


def faster(gamma, size):
    ratios = {
        source: np.divide(medians(topic, "GDM", "seconds"), medians(topic, "eGDM", "seconds"))
        for source, topic in gamma["topics"].items()
    }
    least, most = min(v.min() for v in ratios.values()), max(v.max() for v in ratios.values())
    return Claim(
        "eGDM seems to perform much better than GDM, especially at low and moderate "
        "regularization levels",
        "section 3",
        "the same; the estimate of the eigenvalues included",
        (size,),
        f"GDM takes {least:.2g} to {most:.2g} times eGDM's time, by gamma; the paper gives no "
        "figure",
        tuple(
            at_least(f"{name}: GDM's time over eGDM's, median at {level} gammas",
                     float(np.median(part)), 1.0, ".2f")
            for name, values in ratios.items()
            for level, part in zip(("low", "moderate"), np.array_split(values, 3), strict=False)
        ),
    )  # fmt: skip


def no_difference(gamma, size):
    counts = {
        source: [medians(topic, method, "iterations")[-1] for method in ("GDM", "eGDM")]
        for source, topic in gamma["topics"].items()
    }
    first = next(iter(counts.values()))
    return Claim(
        "There is no statistically significant difference between the algorithms when the "
        "regularization is very high",
        "section 3",
        "the same, at the largest gamma",
        (size,),
        f"GDM, whose momentum is fixed, takes {first[0]:.0f} iterations, eGDM {first[1]:.0f}",
        tuple(
            at_most(f"{name}: GDM's iterations over eGDM's", slow / fast, 2.0, ".1f")
            for name, (slow, fast) in counts.items()
        ),
    )


def unaffected(gamma, size):
    slopes, late = {}, 0
    for source, topic in gamma["topics"].items():
        done = np.array(converged(topic, "eGDM"))
        condition = np.array([cell["median"] for cell in topic["condition"]])
        kept = done & (condition > 10)
        counts = np.array(medians(topic, "eGDM", "iterations"))
        slopes[source] = exponent(condition[kept], counts[kept])
        late += int((~done).sum())
    return Claim(
        "eGDM is unaffected by the difficulty of the problem and converges to the solution in a "
        "very short time",
        "section 3",
        "the same",
        (size,),
        f"iterations grow as condition^{max(slopes.values()):.2f} (theory: 0.5); at {late} of "
        f"{2 * len(gamma['parameters']['gammas'])} gammas it does not converge in "
        f"{gamma['parameters']['max_iter']:,} steps",
        (
            *(at_most(f"{s}: exponent in the condition number", v, 0.1, ".2f") for s, v in
              slopes.items()),
            at_most("gammas at which it does not converge", late, 0, "d"),
        ),
    )  # fmt: skip
