"""The list of faults names tests that exist, and seeded bugs match the sources."""

import ast
import math

import pytest

from reliability import page
from reliability.faults import FAULTS
from reliability.harness.plan import KINDS
from reliability.seeded_bugs import BUGS, plant
from reliability.trials.seeded import PACKAGE


def test_every_fault_names_tests_that_exist():
    assert sum(map(len, FAULTS.values())) == 49
    functions: dict[str, set[str]] = {}
    for faults in FAULTS.values():
        for fault in faults:
            assert fault.tests, fault
            for test in fault.tests:
                if test.startswith("trial:"):
                    assert test.removeprefix("trial:") in KINDS, test
                    continue
                file, _, name = test.partition("::")
                if file not in functions:
                    tree = ast.parse((page.ROOT / file).read_text(encoding="utf-8"))
                    functions[file] = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
                assert name in functions[file], test


@pytest.mark.parametrize("name", list(BUGS))
def test_every_seeded_bug_matches_the_source_once(name):
    bug = BUGS[name]
    source = (PACKAGE / bug.file).read_text(encoding="utf-8")
    changed = plant(bug, source)
    assert changed != source
    compile(changed, bug.file, "exec")
    assert bug.kind in KINDS


def test_there_are_enough_seeded_bugs():
    assert len(BUGS) >= 20
    assert math.gcd(5, len(BUGS)) == 1, "a run of the seeded bugs takes every fifth in turn"
