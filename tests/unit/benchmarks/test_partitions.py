"""The simulated cluster does what can be worked out by hand."""

from __future__ import annotations

import pytest
from benchmarks.partitions.simulated import Cluster, Round, Simulation

EVEN = Cluster(4, 0.0, 0.0, 1e12, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(("tasks", "turns"), [(4, 1), (8, 2), (9, 3)])
def test_equal_tasks_take_whole_turns(tasks, turns):
    assert Simulation(EVEN, 0).round(Round(tasks, 2.0)) == pytest.approx(2.0 * turns)


def test_the_scheduler_is_the_limit_of_short_tasks():
    slow = Cluster(4, 0.5, 0.0, 1e12, 0.0, 0.0, 0.0)
    assert Simulation(slow, 0).round(Round(8, 0.1)) == pytest.approx(8 * 0.5 + 0.1)
    # Long tasks hide it: the next one is assigned while a worker works.
    assert Simulation(slow, 0).round(Round(8, 10.0)) == pytest.approx(4 * 0.5 + 20.0)


def test_a_lost_task_is_done_again_and_its_worker_reads_again():
    cluster = Cluster(2, 0.0, 3.0, 1e12, 0.0, 0.0, 0.0)
    simulation = Simulation(cluster, 0, lost_at=[1.5])
    # Worker 0 does one task, dies in its second and is back at 4.5; worker 1 does the other five.
    assert simulation.round(Round(6, 1.0, reading=2.0)) == pytest.approx(5.0)
    assert simulation.losses == 1
    # It reads its share of the partitions again: two tasks of three seconds beside four of one.
    assert simulation.round(Round(6, 1.0, reading=2.0)) == pytest.approx(6.0)


def test_seeds_are_all_that_is_drawn():
    cluster = Cluster(10, 1e-3, 5.0, 50.0, 0.3)
    walls = [Simulation(cluster, seed).round(Round(200, 1.0)) for seed in (1, 1, 2)]
    assert walls[0] == walls[1] != walls[2]
    assert walls[0] > 20.0
