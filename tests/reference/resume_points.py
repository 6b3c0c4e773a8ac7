"""Resume points that record every state they are given, to resume from any of them."""

from __future__ import annotations

import copy

import numpy as np

from rankine.solvers.base import ResumePoint

#: Inner loops that start anew in every iteration of an outer one.
INNER = {"newton": "newton direction"}


class StateRecorder:
    """A problem's ``resume_point`` that records all states.

    ``saved`` is the state of each loop to resume from.
    """

    def __init__(self, saved=()):
        self.saved = dict(saved)
        self.kept = []

    def __call__(self, solver):
        point = ResumePoint()
        point.state = self.saved.pop(solver, None)
        point.save = lambda state: self.kept.append((solver, copy.deepcopy(state())))
        return point

    def at(self, index):
        """Return a recorder for a run that was interrupted after ``index + 1`` recorded states."""
        latest = dict(self.kept[: index + 1])
        latest.pop(INNER.get(self.kept[index][0]), None)
        return StateRecorder(copy.deepcopy(latest))


def same_end(first, second):
    """Assert that two solutions have the same bits and traces."""
    np.testing.assert_array_equal(first.coef, second.coef)
    assert list(first.trace) == list(second.trace)
    assert first.certificate == second.certificate
    ends = [(end.objective, end.n_iter, end.stop_reason) for end in (first, second)]
    assert ends[0] == ends[1]
