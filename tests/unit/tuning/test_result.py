"""Records of trials."""

from types import SimpleNamespace

from rankine.tuning.result import records


def test_records_are_the_finished_trials_in_order():
    kept = {"params": {}, "user_attrs": {}, "system_attrs": {}, "duration": None}
    trials = [
        SimpleNamespace(number=k, state=SimpleNamespace(name=state), value=value, **kept)
        for k, (state, value) in enumerate(
            (("COMPLETE", 0.5), ("RUNNING", None), ("COMPLETE", 0.75), ("COMPLETE", 0.25))
        )
    ]
    for maximize, best in ((True, [0.5, 0.75, 0.75]), (False, [0.5, 0.5, 0.25])):
        assert [one.best for one in records(trials, maximize=maximize)] == best
    trials[0].state.name = "FAIL"
    trials[2].system_attrs = {"constraints:size": 0.5}
    trials[3].system_attrs = {"constraints:size": 0.0}
    for trial in trials[2:]:
        trial.user_attrs = {"weights": 3, "seconds": 0.5, "reason": "why"}
    found = records(trials, maximize=True)
    assert [(one.number, one.best, one.feasible) for one in found] == [
        (2, None, False), (3, 0.25, True)
    ]  # fmt: skip
    assert (found[0].weights, found[0].seconds, found[0].reason) == (3, 0.5, "why")
    trials[3].state.name = "PRUNED"
    assert [(one.state, one.value) for one in records(trials, maximize=True)] == [
        ("complete", 0.75), ("pruned", None)
    ]  # fmt: skip
