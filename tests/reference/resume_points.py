"""Bookmarks that keep every state they are given, to begin again from any of them."""

from __future__ import annotations

import copy

import numpy as np

from rankine.solvers.base import ResumePoint

#: Loops that begin anew in every iteration of another.
INNER = {"newton": "newton direction"}


class StateRecorder:
    """What a problem's ``bookmark`` may be; ``given`` is where each loop begins."""

    def __init__(self, given=()):
        self.given = dict(given)
        self.kept = []

    def __call__(self, solver):
        point = ResumePoint()
        point.state = self.given.pop(solver, None)
        point.save = lambda state: self.kept.append((solver, copy.deepcopy(state())))
        return point

    def at(self, place):
        """StateRecorder of a run that was interrupted after so many puts."""
        known = dict(self.kept[: place + 1])
        known.pop(INNER.get(self.kept[place][0]), None)
        return StateRecorder(copy.deepcopy(known))


def same_end(one, other):
    """Whether two solutions have the same bits, and tell the same story."""
    np.testing.assert_array_equal(one.coef, other.coef)
    assert list(one.trace) == list(other.trace)
    assert one.certificate == other.certificate
    ends = [(end.objective, end.n_iter, end.stop_reason) for end in (one, other)]
    assert ends[0] == ends[1]
