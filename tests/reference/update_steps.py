"""Drive lazy updates step by step in compiled code."""

from __future__ import annotations

import numpy as np

from rankine.kernels.compile import jit
from rankine.updates import (
    AdaptiveRda,
    AdaptiveRdaFrom,
    Fobos,
    Psgd,
    Rda,
    RdaFrom,
    Tgd,
)
from rankine.updates.lazy import (
    add_gradient,
    close_step,
    new_clock,
    open_step,
    read_weight,
    state_width,
)

#: Number of weights.
N = 20


@jit
def read_some(optimizer, clock, state, indices):
    """Return some weights."""
    step_scalars = open_step(optimizer, clock)
    out = np.empty(indices.shape[0])
    for k in range(indices.shape[0]):
        out[k] = read_weight(optimizer, step_scalars, state, indices[k])
    return out


@jit
def step(optimizer, clock, state, indices, gradient):
    """Make one step with the gradient of some weights."""
    step_scalars = open_step(optimizer, clock)
    for k in range(indices.shape[0]):
        # In two parts, as two items of a list that share a feature.
        add_gradient(optimizer, step_scalars, state, indices[k], 0.25 * gradient[k])
        add_gradient(optimizer, step_scalars, state, indices[k], 0.75 * gradient[k])
    close_step(optimizer, clock, state)


def make(kind, options, started=False):
    """Create the spec of an update from a dictionary of options."""
    if kind == "fobos":
        return Fobos(options["eta0"], options["power"], options["l1"], options["l2"])
    if kind == "rda":
        return (RdaFrom if started else Rda)(
            options["eta0"], options["power"], options["l1"], options["l2"]
        )
    if kind == "adaptive":
        return (AdaptiveRdaFrom if started else AdaptiveRda)(
            options["eta0"], options["l1"], options["l2"]
        )
    if kind == "psgd":
        return Psgd(
            options["eta0"], options["power"], options["l2"], options["theta"], options["every"]
        )
    return Tgd(options["eta0"], options["power"], options["l1"], options["theta"], options["every"])


def draw_options(rng, kind):
    """Draw the options of an update."""
    theta = rng.choice([0.05, 0.3, np.inf]) if kind == "tgd" else rng.choice([0.01, 0.1])
    return {
        "eta0": rng.choice([0.1, 1.0, 3.0]),
        "power": rng.choice([0.0, 0.5, 1.0]),
        "l1": rng.choice([0.0, 0.01, 0.1]),
        "l2": 0.0 if kind == "tgd" else rng.choice([0.0, 0.01, 0.3]),
        "theta": float(theta),
        "every": int(rng.choice([1, 3, 10])),
    }


def weights_of_steps(optimizer, gradients):
    """Return a weight after each of a sequence of gradients."""
    state, clock = np.zeros((1, int(state_width(optimizer)))), new_clock()
    weights = []
    for gradient in gradients:
        step(optimizer, clock, state, np.array([0]), np.array([gradient]))
        weights.append(float(read_some(optimizer, clock, state, np.array([0]))[0]))
    return weights
