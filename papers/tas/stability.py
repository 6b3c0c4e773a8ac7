"""Map of the step sizes and momenta for which gradient descent with momentum is stable."""

from __future__ import annotations

import numpy as np

from papers.runs import table
from papers.tas.topic import POOL, large_half, largest_eigenvalue, sample, system_of
from rankine.solvers.heavy_ball import optimal_step_and_momentum, stable_eta

TITLE = "Section 2.1: the map of stable eta and momentum"
SMOKE = {"rows": 100, "etas": 3, "momenta": 2, "steps": 10}
QUICK = {"rows": 300, "etas": 8, "momenta": 6, "steps": 60}
FULL = {"rows": 500, "etas": 33, "momenta": 25, "steps": 200}

SEED = 1
#: kappa_1 / kappa_n of the system; gamma is set to make it so.
CONDITION = 1000.0


def rate(system, gamma, eta, momentum, steps):
    """Measure the growth of the residual per step over the second half of a run (eq. 7)."""
    w = residual_before = np.zeros(system.n_features)
    sizes = []
    for _ in range(steps):
        gradient = system.times(w, gamma) - system.b
        sizes.append(float(np.linalg.norm(gradient)))
        if sizes[-1] > 1e100:
            break
        ahead = w - (1 - momentum) * eta * gradient + momentum * (w - residual_before)
        residual_before, w = w, ahead
    half = len(sizes) // 2
    return (sizes[-1] / sizes[half]) ** (1 / (len(sizes) - 1 - half))


def predicted(eta, momentum, k1, kn):
    """Return the largest root of z^2 - (1 + mu - (1 - mu) eta kappa) z + mu (eq. 10)."""
    radii = []
    for kappa in (k1, kn):
        middle = 1 + momentum - (1 - momentum) * eta * kappa
        radii.append(np.abs(np.roots([1.0, -middle, momentum])).max())
    return float(max(radii))


def measure(rows, etas, momenta, steps):
    _, X, y = large_half(POOL)
    data, _ = sample(X, y, SEED, rows, 0)
    system = system_of(data)
    largest = largest_eigenvalue(system)
    gamma = largest / (CONDITION - 1)
    k1, kn = largest + gamma, gamma
    relative = np.geomspace(0.1, 100.0, etas)  # eta kappa_1
    momentum = np.linspace(0.0, 0.96, momenta)
    measured = [[rate(system, gamma, e / k1, mu, steps) for e in relative] for mu in momentum]
    theory = [[predicted(e / k1, mu, k1, kn) for e in relative] for mu in momentum]
    step, best = optimal_step_and_momentum(k1, kn)
    return {
        "seeds": [SEED],
        "repetitions": 1,
        "eta_kappa_1": relative,
        "momentum": momentum,
        "measured_rate": measured,
        "predicted_rate": theory,
        "boundary_eta_kappa_1": [k1 * stable_eta(k1, mu) for mu in momentum],
        "optimum": {"eta_kappa_1": step / (1 - best) * k1, "momentum": best,
                    "rate": predicted(step / (1 - best), best, k1, kn)},
    }  # fmt: skip


def markdown(results):
    measured, theory = (np.array(results[k]) for k in ("measured_rate", "predicted_rate"))
    stable, sentences = measured < 1, theory < 1
    wrong = int((stable != sentences).sum())
    near = np.abs(theory - 1) < 0.02
    far = int(((stable != sentences) & ~near).sum())
    optimum = results["optimum"]
    rows = [[f"{mu:.2f}", f"{edge:.2f}"] for mu, edge in zip(
        results["momentum"][::6], results["boundary_eta_kappa_1"][::6], strict=True)]  # fmt: skip
    return "\n\n".join([
        (f"{measured.size} runs of {results['parameters']['steps']} steps from zero on one system "
        f"with kappa_1 / kappa_n = {CONDITION:g}. Theory: stable exactly while (1 - mu) eta "
        "kappa_1 < 2 (1 + mu)."),
        table(("momentum", "largest stable eta kappa_1"), rows),
        (f"Measured and predicted stability agree in {measured.size - wrong} of {measured.size} "
        f"cells; {far} of the others lie further than 0.02 from a rate of 1. The paper's optimum "
        f"(star) is at eta kappa_1 = {optimum['eta_kappa_1']:.1f}, momentum "
        f"{optimum['momentum']:.3f}, with a rate of {optimum['rate']:.4f} a step."),
    ])  # fmt: skip


def draw(results):
    import matplotlib as mpl
    from benchmarks.common.drawing import axis, panels

    figure, (ax,) = panels(width=6.2, height=4.4)
    rates = np.clip(np.array(results["measured_rate"]), 0.85, 1.15)
    norm = mpl.colors.TwoSlopeNorm(1.0, 0.85, 1.15)
    mesh = ax.pcolormesh(
        results["eta_kappa_1"], results["momentum"], rates, norm=norm, cmap="RdBu_r",
        shading="nearest",
    )  # fmt: skip
    ax.plot(results["boundary_eta_kappa_1"], results["momentum"], color="black", lw=1.6)
    optimum = results["optimum"]
    ax.plot(optimum["eta_kappa_1"], optimum["momentum"], "*", color="black", ms=13)
    ax.annotate("eGDM", (optimum["eta_kappa_1"], optimum["momentum"]), xytext=(-34, -4),
                textcoords="offset points", fontsize=9)  # fmt: skip
    axis(ax, "eta kappa_1", "momentum mu", title="line: (1 - mu) eta kappa_1 = 2 (1 + mu)",
         logx=True)  # fmt: skip
    ax.set_xlim(0.1, 100)
    ax.grid(visible=False)
    figure.colorbar(mesh, ax=ax, label="measured growth of the residual a step (above 1: unstable)")
    return figure
